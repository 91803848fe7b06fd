"""Images of digits, read from the user's folder, and features that no data were used to choose.

Features are histograms of edge orientations (Dalal and Triggs 2005): fixed filters, fixed cells,
and each image scaled by its own length, so that they are public preprocessing.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from dpstream.arrays import FloatArray
from dpstream.errors import SourceError
from dpstream.mechanisms.public import public_generator
from dpstream.reproduce.labelled_stream import LabelledStream

FILE = "mnist.npz"
SIDE = 28
CLASSES = 10
_CELL = 4
_ORIENTATIONS = 8
_CHUNK = 2048
FEATURES = (SIDE // _CELL) ** 2 * _ORIENTATIONS
PROJECTED = 64


def load_digits(folder: Path, *, records: int) -> tuple[LabelledStream, LabelledStream]:
    """Read ``mnist.npz`` with arrays ``X``, ``y``, ``X_test`` and ``y_test``.

    Args:
        folder: of the file.
        records: how many of the stream's first images to take.

    Returns:
        The stream with edge features, and with its pixels.

    Raises:
        SourceError: if the file or an array is missing.
    """
    path = folder / FILE
    try:
        with np.load(path, allow_pickle=False) as arrays:
            images, labels = arrays["X"][:records], arrays["y"][:records]
            test_images, test_labels = arrays["X_test"], arrays["y_test"]
    except (OSError, KeyError, ValueError) as error:
        raise SourceError(
            f"{path} cannot be read as digits ({type(error).__name__}); give the folder of an "
            ".npz file with X, y, X_test and y_test: images of 784 bytes and their labels"
        ) from error
    edges = LabelledStream(
        features=edge_features(images),
        labels=np.asarray(labels, np.int64),
        test_features=edge_features(test_images),
        test_labels=np.asarray(test_labels, np.int64),
        classes=CLASSES,
    )
    pixels = replace(
        edges, features=unit_rows(images / 255.0), test_features=unit_rows(test_images / 255.0)
    )
    return edges, pixels


def unit_rows(rows: Any) -> FloatArray:
    """Each record scaled to length 1 by itself."""
    held = np.asarray(rows, np.float64)
    return held / np.maximum(np.linalg.norm(held, axis=1, keepdims=True), 1e-9)


def projected(rows: FloatArray) -> FloatArray:
    """A fixed random projection to few features, which no data were used to choose."""
    matrix = public_generator(7).normal(size=(rows.shape[1], PROJECTED))
    return unit_rows(rows @ matrix)


def edge_features(images: Any) -> FloatArray:
    """Square roots of oriented edges per cell, centred over the features and scaled to length 1.

    Args:
        images: ``(n, 784)`` bytes.
    """
    parts = [_edges(images[start : start + _CHUNK]) for start in range(0, len(images), _CHUNK)]
    return np.concatenate([np.zeros((0, FEATURES)), *parts])


def _edges(images: Any) -> FloatArray:
    pixels = np.asarray(images, np.float64).reshape(-1, SIDE, SIDE) / 255.0
    across, down = np.zeros_like(pixels), np.zeros_like(pixels)
    across[:, :, 1:-1] = pixels[:, :, 2:] - pixels[:, :, :-2]
    down[:, 1:-1] = pixels[:, 2:] - pixels[:, :-2]
    strength = np.hypot(across, down)
    turn = np.arctan2(down, across) / (2.0 * np.pi) * _ORIENTATIONS
    lower = np.floor(turn)
    share = turn - lower
    lower %= _ORIENTATIONS
    centres = np.arange((_CELL - 1) / 2.0, SIDE, _CELL)
    weights = np.maximum(0.0, 1.0 - np.abs(np.arange(SIDE)[:, None] - centres) / _CELL)
    cells = [
        np.einsum(
            "nij,ik,jl->nkl",
            strength
            * (
                np.where(lower == one, 1.0 - share, 0.0)
                + np.where((lower + 1.0) % _ORIENTATIONS == one, share, 0.0)
            ),
            weights,
            weights,
            optimize=True,
        ).reshape(len(pixels), -1)
        for one in range(_ORIENTATIONS)
    ]
    features = np.sqrt(np.concatenate(cells, axis=1))
    features -= features.mean(axis=1, keepdims=True)
    lengths = np.linalg.norm(features, axis=1, keepdims=True)
    return features / np.maximum(lengths, 1e-9)
