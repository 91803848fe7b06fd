"""The window experiments in small: fixed features, tracks of learners, drift, verdicts."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpstream.errors import SourceError
from dpstream.learners.window.bucket import Fit
from dpstream.mechanisms.public import public_generator
from dpstream.privacy.budget import Budget
from dpstream.reproduce.digit import (
    CLASSES,
    FEATURES,
    PROJECTED,
    edge_features,
    load_digits,
    projected,
)
from dpstream.reproduce.drift import Drifting, electricity, forest, run_drift, turning
from dpstream.reproduce.labelled_stream import LabelledStream, accuracy_track
from dpstream.reproduce.printed_window import SLIDING_NOISE, cumulative_noise
from dpstream.reproduce.sampled_release import sampled_level_epsilon, sampled_release_cost
from dpstream.reproduce.title import load_titles
from dpstream.reproduce.transfer import moved
from dpstream.reproduce.window_as_printed import PRINTED_PANELS
from dpstream.reproduce.window_claim import (
    drift_claims,
    moment_claims,
    obstacle_claims,
    panel_claims,
)
from dpstream.reproduce.window_figure import BLOCK, OUR_SLIDING, PANELS, decayed
from dpstream.reproduce.window_moments import compare_moments
from dpstream.reproduce.window_obstacle import RATIOS, run_obstacles
from dpstream.reproduce.window_panel import (
    Curve,
    Panel,
    cumulative,
    run_curve,
    run_panel,
    sliding,
)
from dpstream.reproduce.windows import windows


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


@pytest.fixture(scope="module")
def streams(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, LabelledStream]:
    folder = tmp_path_factory.mktemp("drawings")
    save(folder, 9 * BLOCK)
    edges, pixels = load_digits(folder, records=8 * BLOCK)
    assert len(edges.labels) == len(pixels.labels) == 8 * BLOCK
    return {"edges": edges, "pixels": pixels}


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


def test_projections_and_moved_images_are_public_maps_of_each_record(
    streams: Mapping[str, LabelledStream],
) -> None:
    rows = streams["pixels"].features[:4]
    assert projected(rows).shape == (4, PROJECTED)
    assert np.allclose(np.linalg.norm(projected(rows), axis=1), 1.0)
    assert np.allclose(projected(rows[2:3])[0], projected(rows)[2], atol=1e-12)
    whole = edge_features(255.0 * np.roll(rows.reshape(-1, 28, 28), 3, axis=2).reshape(4, -1))
    assert np.allclose(moved(rows), whole)


def test_windows_of_drawings_are_learned_privately(
    streams: Mapping[str, LabelledStream],
) -> None:
    budget = Budget(epsilon=1.0, delta=1e-6)
    found = accuracy_track(
        "refit", OUR_SLIDING, streams["edges"], budget=budget, blocks=8, repeats=1
    )
    assert found.blocks.tolist() == [7, 8]
    assert found.median.min() > 0.8
    assert found.to_json()["median"] == found.median.tolist()
    forgetting = accuracy_track(
        "decayed",
        decayed(0.75, block=BLOCK, ridge=0.01),
        streams["edges"],
        budget=budget,
        blocks=8,
        repeats=1,
    )
    assert forgetting.median[-1] > 0.8


def test_printed_noise_is_run_beside_and_costs_more_than_it_claims(
    streams: Mapping[str, LabelledStream],
) -> None:
    make = sliding(3, block=BLOCK, ridge=2.0, refresh=None)
    panel = Panel(
        name="x",
        title="printed",
        curves=(
            Curve(name="ours", stream="edges", make=make),
            Curve(name="printed", stream="edges", make=make, printed=SLIDING_NOISE),
        ),
    )
    found = run_panel(panel, streams, records=4 * BLOCK, repeats=1)
    ours, printed = found["curves"]
    assert "not private" in printed["name"]
    assert printed["true_epsilon_at_least"] > 2.0 * printed["claimed_epsilon"]
    assert "true_epsilon_at_least" not in ours
    assert ours["records"] == [3 * BLOCK, 4 * BLOCK]
    assert found["svg"].startswith("<svg")


def test_sampled_fits_use_few_records_and_cost_more_than_without(
    streams: Mapping[str, LabelledStream],
) -> None:
    noise = cumulative_noise(1, sampled=True)
    fit = Fit(start=0, end=8, level=3)
    chance, divisor = noise.part(fit, based=True, size=BLOCK, epsilon=1.0)
    assert chance == pytest.approx(np.expm1(1 / 16) / np.expm1(1 / 2))
    assert divisor == 8 * BLOCK
    assert noise.part(replace(fit, start=7), based=True, size=BLOCK, epsilon=1.0) == (1.0, BLOCK)
    assert cumulative_noise(1).part(fit, based=True, size=BLOCK, epsilon=1.0) == (1.0, BLOCK)
    make = cumulative(1, block=BLOCK, penalty=0.05)
    costs: dict[bool, float] = {}
    for sampled in (False, True):
        printed = cumulative_noise(1, sampled=sampled)
        curve = Curve(name="x", stream="edges", make=make, printed=printed, penalty=0.05)
        track, least = run_curve(curve, streams, records=8 * BLOCK, repeats=1)
        assert track.blocks.tolist() == list(range(1, 9))
        assert track.median[-1] > 0.5
        assert least is not None
        costs[sampled] = least
    # The base of 8 blocks uses about one of them, under an eighth of the noise.
    assert costs[True] > 4.0 * costs[False]


def test_every_panel_of_the_figures_is_there() -> None:
    twins = {panel.name.removesuffix("-printed") for panel in PRINTED_PANELS}
    assert {"4b", "4c", "4d", "4f", "4g", "4h", "4i", "5a", "5b"} <= twins
    assert all(curve.printed for panel in PRINTED_PANELS for curve in panel.curves)
    names = [panel.name for panel in (*PANELS, *PRINTED_PANELS)]
    assert {"4a", "4b", "4c", "4d", "4e", "4f", "4g", "4h", "4i", "5a", "5b"} <= set(names)
    assert len(set(names)) == len(names)
    for panel in (*PANELS, *PRINTED_PANELS):
        assert len({curve.name for curve in panel.curves}) == len(panel.curves) > 1


def _runs(cumulative: list[float]) -> Mapping[str, list[float]]:
    return {"sliding": [2.0, 2.0], "decayed": [0.5, 0.5], "cumulative": cumulative}


@pytest.mark.parametrize("slow", [False, True])
def test_recent_memories_win_under_drift_and_the_plan_says_so(slow: bool) -> None:
    found = run_drift(turning(slow=slow), repeats=1)
    (verdict,) = drift_claims([found])
    assert verdict["held"]
    after = found["after_change"]
    # Moments of the window are measured more exactly than its minimiser.
    assert after["sliding, moments"] < 1.1 * after["sliding"]
    assert found["after_change_without_noise"] == {}
    (other,) = drift_claims([found | {"after_change_by_run": _runs([1.0, 3.0])}])
    assert other["held"] is None
    assert not drift_claims([found | {"after_change_by_run": _runs([1.0, 1.0])}])[0]["held"]
    found["plan"] = [entry | {"error": 1.0 / entry["error"]} for entry in found["plan"]]
    assert not drift_claims([found])[0]["held"]


def test_files_of_drifting_streams_are_read_in_their_order(tmp_path: Path) -> None:
    draw = public_generator(1)
    np.savez(
        tmp_path / "elec2.npz", X=draw.uniform(size=(36_000, 8)), y=draw.integers(0, 2, 36_000)
    )
    stream = electricity(tmp_path)
    assert isinstance(stream, Drifting)
    features, labels = stream.rows(0)
    assert len(features) == len(labels) == 53 * 672
    assert np.allclose(np.linalg.norm(features, axis=1), 1.0)
    # Labels by chance: the last one says nothing of the next.
    assert stream.repeating == pytest.approx(0.5, abs=0.03)
    assert turning(slow=True).repeating is None
    with pytest.raises(SourceError, match=r"covtype\.npz cannot be read"):
        forest(tmp_path)


def test_titles_are_hashed_each_by_itself(tmp_path: Path) -> None:
    titles = ["A private window", "window, private: A", "", "streams of flights"]
    text = "".join(titles).encode()
    offsets = np.cumsum([0, *(len(title.encode()) for title in titles)])
    np.savez(
        tmp_path / "arxiv_titles.npz",
        text=np.frombuffer(text, np.uint8),
        offsets=offsets,
        group=np.array([0, 1, 2, 7]),
    )
    found = load_titles(tmp_path)
    rows = np.concatenate([found.features, found.test_features])
    labels = np.concatenate([found.labels, found.test_labels]).tolist()
    one, other, empty = (rows[labels.index(label)] for label in (0, 1, 2))
    assert np.array_equal(one, other)
    assert not empty.any()
    assert np.linalg.norm(one) == pytest.approx(1.0)
    with pytest.raises(SourceError, match="cannot be read as titles"):
        load_titles(tmp_path / "missing")


def test_sampling_costs_what_a_likelihood_ratio_shows() -> None:
    """One number per record, its mean over the sample, Laplace noise: the exact density ratio."""
    known = [0.50, 0.56, 0.84, 1.84, 4.99, 12.3, 27.6]
    found = [entry["true"] for entry in sampled_release_cost()]
    assert found == pytest.approx(known, rel=0.01)
    for level in range(5):
        shift = 2.0**level / 2.0
        chance = np.expm1(1.0 / 2.0 ** (level + 1)) / np.expm1(0.5)
        far = np.linspace(-60, 60, 20_001)
        with_record = (1 - chance) * np.exp(-abs(far)) + chance * np.exp(-abs(far - shift))
        ratio = np.log(with_record / np.exp(-abs(far))).max()
        assert sampled_level_epsilon(level, epsilon=1.0) == pytest.approx(ratio, rel=1e-6)
    assert np.isfinite(sampled_level_epsilon(40, epsilon=1.0))


def test_verdicts_on_panels_can_fail() -> None:
    def panel(name: str, medians: Mapping[str, float], *, rising: bool = True) -> dict[str, Any]:
        curves: list[dict[str, Any]] = [
            {"name": key, "median": [value, value]} for key, value in medians.items()
        ]
        marked = {"claimed_epsilon": 1.0, "true_epsilon_at_least": 2.0}
        curves.append({"name": "as printed (not private)", "median": [0.9]} | marked)
        return {"name": name, "title": name, "curves": curves, "rising": rising}

    def by_lambda(*means: float) -> dict[str, Any]:
        curves = [{"name": str(index), "median": [mean]} for index, mean in enumerate(means)]
        return {"name": "5b", "title": "5b", "curves": curves, "rising": False}

    flat = {"rising": False}
    good = [
        panel("4a", {"pure, 0.1, pixels": 0.1}, **flat),
        panel("4a-features", {"pixels": 0.5, "projected": 0.52, "edges": 0.7}, **flat),
        panel("4e", {}, **flat),
        panel("4g-rules", {"window refitted": 0.8}, **flat),
        panel("4-cumulative", {"all refitted, quieter with size": 0.9}, **flat),
        panel("5a", {"low": 0.3, "high": 0.6}),
        panel("5a-printed", {}, **flat),
        by_lambda(0.5, 0.7, 0.8, 0.72, 0.75),
    ]
    assert any("times the claimed" in str(item["measured"]) for item in panel_claims(good))
    assert all(item["held"] for item in panel_claims(good))
    bad = [
        panel("4a", {"pure, 0.1, pixels": 0.5}, **flat),
        panel("4a-features", {"pixels": 0.5, "projected": 0.6, "edges": 0.4}, **flat),
        panel("4e", {}, **flat),
        panel("4g-rules", {"window refitted": 0.7}, **flat),
        panel("4-cumulative", {"all refitted, quieter with size": 0.8}, **flat),
        panel("5a", {"low": 0.6, "high": 0.3, "highest": 0.2}),
        by_lambda(0.5, 0.7, 0.8, 0.72, 0.85),
    ]
    assert sum(not item["held"] for item in panel_claims(bad)) == 7


def test_a_window_s_moments_are_better_than_fits_of_its_blocks() -> None:
    found = compare_moments(dimension=5, epsilon=1.0, repeats=1)
    assert set(found["refitted_by_ridge"]) == {"0.3", "0.1", "0.03", "0.01"}
    assert found["refitted"] == min(found["refitted_by_ridge"].values())
    assert found["moments"] < 0.1 * found["refitted"]
    (verdict,) = moment_claims([found])
    assert verdict["held"]
    assert moment_claims([found | {"moments": 1.06 * found["refitted"]}])[0]["held"] is False
    useless = {"moments": 0.9 * found["zero_model"], "refitted": found["zero_model"]}
    assert moment_claims([found | useless])[0]["held"] is None


def test_noise_far_longer_than_the_model_leaves_nothing_of_it(
    streams: Mapping[str, LabelledStream],
) -> None:
    few = {"pixels": streams["pixels"], "projected": streams["pixels"].mapped(projected)}
    found = run_obstacles(few, block=BLOCK, base=2, blocks=4, penalty=1.0)
    assert len(found["rows"]) == 2 * 3 * 2
    for row in found["rows"]:
        assert row["ratio"] == pytest.approx(row["noise_length"] / row["model_length"])
        if row["ratio"] < RATIOS[0]:
            assert row["simulated_accuracy"] > row["without_noise"] - 0.05
        if row["ratio"] > 10.0 * RATIOS[-1]:
            assert row["simulated_accuracy"] < 0.3
    # One fit of all records is the quietest there is.
    for paper, alone in zip(found["rows"][::2], found["rows"][1::2], strict=True):
        assert alone["noise_length"] < paper["noise_length"]
    assert found["svg"].startswith("<svg")
    pixels, random = obstacle_claims(found)
    assert pixels["held"]
    assert random["held"]
    for row in found["rows"]:
        row["ratio"] /= 1e3
        row["simulated_accuracy"] = 0.5
    assert not any(item["held"] for item in obstacle_claims(found))


def test_a_folder_without_digits_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"mnist\.npz cannot be read"):
        load_digits(tmp_path, records=10)


def test_without_data_only_made_up_streams_are_shown(tmp_path: Path) -> None:
    found = windows(out=tmp_path / "page", repeats=1)
    assert not found["panels"]
    assert "transfer" not in found
    assert not any(item["held"] is False for item in found["claims"])
    assert sum(item["held"] is None for item in found["claims"]) <= 1
    assert len(found["pictures"]) == 2
    for name in (*found["pictures"], found["page"]):
        assert (tmp_path / "page" / name).stat().st_size > 1000
