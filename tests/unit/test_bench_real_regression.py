"""The benchmark on real streams: its fits, its models and its figures, on small made-up files."""

from pathlib import Path

import numpy as np
import pytest
from small_tables import write_adult

from dpstream.bench import real_regression as bench
from dpstream.geometry.l1_ball import L1Ball
from dpstream.geometry.l2_ball import L2Ball
from dpstream.randomness.public import public_generator
from dpstream.reproduce.real_records import CARRIERS, DESTINATIONS

RECORDS = 1_300


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    generator = public_generator(0)
    write_adult(tmp_path, generator, records=RECORDS, levels="ab")
    origin = generator.integers(0, 3, RECORDS)
    delay = 60 * origin + generator.integers(-20, 20, RECORDS)
    delay[:10] = -32768  # unknown
    np.savez(
        tmp_path / "nycflights13.npz",
        sched_dep=generator.integers(0, 1440, RECORDS),
        sched_arr=generator.integers(0, 1440, RECORDS),
        distance=generator.integers(100, 3000, RECORDS),
        dow=generator.integers(0, 7, RECORDS),
        origin=origin,
        carrier=generator.integers(0, CARRIERS, RECORDS),
        dest=generator.integers(0, DESTINATIONS, RECORDS),
        arr_delay=delay,
    )
    return tmp_path


def test_fits_are_those_of_the_records(folder: Path) -> None:
    records = bench.flights(folder)
    assert records.features.shape == (RECORDS - 10, 134)
    assert np.linalg.norm(records.features, axis=1).max() <= np.sqrt(7.0)
    assert np.abs(records.targets).max() <= 1.0
    assert records.ends == [500, 1000, RECORDS - 10]
    generator = public_generator(1)
    point = 0.1 * generator.standard_normal(135)
    x, y = records.features[:1000], records.targets[:1000]
    residual = y - point[0] - x @ point[1:]
    found = bench.fit(records.moments[1], point)
    assert found.explained == pytest.approx(1 - residual.var() / y.var())
    assert found.r_squared == pytest.approx(1 - float(np.mean(residual**2)) / y.var())
    assert bench.fit(records.moments[1], np.eye(135)[0]).explained == pytest.approx(0.0, abs=1e-9)


def test_without_noise_it_is_the_best_of_the_set(folder: Path) -> None:
    records = bench.flights(folder)
    moments = records.moments[-1]
    free = bench.fit(moments, bench.without_noise(moments, None))
    design = np.column_stack([np.ones(len(records.targets)), records.features])
    fitted = design @ np.linalg.lstsq(design, records.targets, rcond=None)[0]
    expected = 1 - (records.targets - fitted).var() / records.targets.var()
    assert free.explained == pytest.approx(expected, abs=1e-6)
    for kind in (L1Ball, L2Ball):
        ball = kind(dimension=134, radius=0.2)
        point = bench.without_noise(moments, ball)
        assert ball.contains(point[1:])
        held = bench.fit(moments, point)
        assert 0.0 < held.explained < free.explained
        # The constant is free: no offset is left.
        assert held.explained == pytest.approx(held.r_squared)


def test_figures_of_every_release(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "BUDGET", bench.Budget(epsilon=1e4, delta=1e-6))
    found = bench.run(data=folder, names=("nycflights",), draws=2)["nycflights"]
    assert found["releases"] == 3
    for name in ("L2 ball", "L1 ball"):
        held = found[name]
        # With next to no noise the released models are the minimisers over the same set.
        assert held["kept at the end"] == pytest.approx(1.0, abs=0.01)
        assert held["releases below zero"] == 0
        assert held["at records"] == [500, 1000, RECORDS - 10]
        np.testing.assert_allclose(held["explained"], held["non-private"], atol=0.02)
    quiet = bench.figures(bench.incomes(folder), draws=1)
    assert quiet["features"] == 5 + 8 * 2


def test_private_models_of_pure_noise_explain_nothing(folder: Path) -> None:
    held = bench.run(data=folder, names=("adult",), draws=1)["adult"]["L2 ball"]
    assert held["explained at the end"] < 0.05
