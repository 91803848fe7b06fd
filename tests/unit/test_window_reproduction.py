"""The window experiments in small: fixed features, tracks of learners, drift."""

from pathlib import Path

import numpy as np
import pytest

from dpstream.errors import SourceError
from dpstream.mechanisms.public import public_generator
from dpstream.reproduce.digit import CLASSES, FEATURES, edge_features, load_digits
from dpstream.reproduce.windows import (
    BLOCK,
    SLIDING,
    digit_track,
    drift_tracks,
    printed_track,
    windows,
)


def drawings(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Bars at ten angles, with noise: as easy to tell apart as anything."""
    generator = public_generator(seed)
    labels = generator.integers(0, CLASSES, count)
    rows, columns = np.indices((28, 28)) - 13.5
    angles = np.pi * np.arange(CLASSES) / CLASSES
    distance = np.abs(
        columns * np.cos(angles)[:, None, None] + rows * np.sin(angles)[:, None, None]
    )
    clean = 200.0 * (distance < 3.0)
    noisy = clean[labels] + generator.normal(0.0, 20.0, (count, 28, 28))
    return np.clip(noisy, 0, 255).astype(np.uint8).reshape(count, -1), labels


def save(folder: Path, count: int) -> None:
    images, labels = drawings(count, 1)
    test_images, test_labels = drawings(300, 2)
    np.savez(folder / "mnist.npz", X=images, y=labels, X_test=test_images, y_test=test_labels)


def test_features_are_of_each_image_alone_and_fit_the_unit_ball() -> None:
    images, _ = drawings(5, 3)
    features = edge_features(images)
    assert features.shape == (5, FEATURES)
    assert np.allclose(np.linalg.norm(features, axis=1), 1.0)
    for index in range(5):
        # BLAS may order the sums of one image differently from those of many.
        assert np.allclose(edge_features(images[index : index + 1])[0], features[index], atol=1e-12)
    assert edge_features(images[:0]).shape == (0, FEATURES)
    assert not edge_features(np.zeros((1, 784))).any()


def test_windows_of_drawings_are_learned_privately(tmp_path: Path) -> None:
    save(tmp_path, 9 * BLOCK)
    digits = load_digits(tmp_path, records=8 * BLOCK)
    assert len(digits.labels) == 8 * BLOCK
    found = digit_track(
        "refit", SLIDING["window refitted"], digits, epsilon=1.0, blocks=8, repeats=1
    )
    assert found.blocks.tolist() == [7, 8]
    assert found.median.min() > 0.8
    assert found.to_json()["median"] == found.median.tolist()


def test_a_sliding_window_forgets_and_a_cumulative_model_does_not() -> None:
    sliding, cumulative = drift_tracks(repeats=1)
    after = {
        item.name: item.median[item.blocks.tolist().index(30)] for item in (sliding, cumulative)
    }
    assert after["sliding window"] < 0.1 * after["cumulative"]


def test_a_folder_without_digits_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"mnist\.npz cannot be read"):
        load_digits(tmp_path, records=10)


def test_printed_noise_is_run_beside_and_costs_more_than_it_claims(tmp_path: Path) -> None:
    save(tmp_path, 8 * BLOCK)
    digits = load_digits(tmp_path, records=8 * BLOCK)
    found = printed_track(digits, epsilon=1.0, blocks=8, repeats=1)
    assert "not private" in found["name"]
    assert found["true_epsilon_at_least"] > 2.0 * found["claimed_epsilon"]


def test_without_data_only_the_synthetic_stream_is_shown(tmp_path: Path) -> None:
    found = windows(out=tmp_path / "page", repeats=1)
    assert set(found) == {"name", "delta", "neighbours", "block_records", "drift", "page"}
    page = (tmp_path / "page" / "windows.html").read_text(encoding="utf-8")
    assert "Abrupt drift" in page
