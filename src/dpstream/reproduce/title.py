"""Titles of papers in the order of their days, hashed into features that no data were used for."""

import itertools
import zlib
from pathlib import Path

import numpy as np

from dpstream.errors import SourceError
from dpstream.mechanisms.public import public_generator
from dpstream.reproduce.labelled_stream import LabelledStream

FILE = "arxiv_titles.npz"
CLASSES = 8
FEATURES = 256
_HELD_OUT = 4
"""One in so many titles is held out for the test, at random."""


def load_titles(folder: Path) -> LabelledStream:
    """Read ``arxiv_titles.npz``: ``text`` (bytes), ``offsets`` into it, and ``group``.

    Words are hashed into signed features by a fixed hash, and each title is scaled to length 1.

    Raises:
        SourceError: if the file or an array is missing.
    """
    path = folder / FILE
    try:
        with np.load(path, allow_pickle=False) as arrays:
            text, offsets = arrays["text"].tobytes(), arrays["offsets"].tolist()
            labels = np.asarray(arrays["group"], np.int64)
    except (OSError, KeyError, ValueError) as error:
        raise SourceError(
            f"{path} cannot be read as titles ({type(error).__name__}); give the folder of an "
            ".npz file with text, offsets and group"
        ) from error
    features = np.zeros((len(labels), FEATURES))
    for index, (start, end) in enumerate(itertools.pairwise(offsets)):
        title = text[start:end].decode(errors="replace").lower()
        for word in "".join(letter if letter.isalnum() else " " for letter in title).split():
            code = zlib.crc32(word.encode())
            features[index, code % FEATURES] += 1.0 - 2.0 * (code >> 31)
    features /= np.maximum(np.linalg.norm(features, axis=1, keepdims=True), 1e-9)
    held_out = public_generator(4).permutation(len(labels)) % _HELD_OUT == 0
    return LabelledStream(
        features=features[~held_out],
        labels=labels[~held_out],
        test_features=features[held_out],
        test_labels=labels[held_out],
        classes=CLASSES,
        ordered=True,
    )
