"""Two streams, one after the other's models: source and target with a budget each."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpstream.connectors.released_models import LoggedModels
from dpstream.domain.domain import Domain
from dpstream.engine.schedule import EveryRecords
from dpstream.engine.session import Session
from dpstream.engine.stream import Stream
from dpstream.errors import SourceError
from dpstream.learners.window.continual_release import ContinualRelease
from dpstream.learners.window.sliding_window import SlidingWindowRelease
from dpstream.losses.logistic import LogisticLoss
from dpstream.mechanisms.public import public_generator
from dpstream.privacy.budget import Budget
from dpstream.privacy.unit import Neighbours, Unit
from dpstream.stores.release_log import ReleaseLog
from dpstream.stores.sqlite import SqliteStore
from dpstream.stores.verification import verify_store
from dpstream.testing.small_stream import ArraySource

DOMAIN = Domain.vectors(2, norm_bound=1.0, target_bound=1.0)
COMMON: dict[str, Any] = {
    "domain": DOMAIN,
    "neighbours": Neighbours.ZERO_OUT,
    "horizon": None,
    "loss": LogisticLoss(),
    "ridge": 0.1,
    "radius": 5.0,
}


def rows(count: int, seed: int) -> np.ndarray:
    draw = public_generator(seed)
    features = draw.normal(size=(count, 2))
    return np.column_stack([features, np.where(features[:, 0] > 0, 1.0, -1.0)])


def run(stream: Stream[Any], folder: Path, data: np.ndarray) -> list[Any]:
    folder.mkdir(exist_ok=True)
    store, log = SqliteStore(folder / "store.sqlite"), ReleaseLog(folder / "releases.jsonl")
    with Session(stream, store=store, sinks=[log]) as session:
        return list(session.run(ArraySource(data, [23])))


def test_source_and_target_are_streams_of_their_own(tmp_path: Path) -> None:
    source = Stream(
        learner=ContinualRelease(
            base=1,
            budget=Budget(epsilon=2.0, delta=1e-6),
            unit=Unit(),
            block_records=400,
            **COMMON,
        ),
        schedule=EveryRecords(records=400),
        insecure_seed=3,
    )
    users = Unit(kind="user", cap=2, column="id")
    target = Stream(
        learner=SlidingWindowRelease(
            window_records=20,
            source=LoggedModels(tmp_path / "source" / "releases.jsonl", domain=DOMAIN),
            budget=Budget(epsilon=0.5, delta=1e-6),
            unit=users,
            block_records=20,
            update_ridge=50.0,
            **COMMON,
        ),
        schedule=EveryRecords(records=20),
        insecure_seed=4,
    )
    data = [
        {"x1": row[0], "x2": row[1], "y": row[2], "id": f"u{index}"}
        for index, row in enumerate(rows(60, 2))
    ]
    names = [column.name for column in DOMAIN.columns]
    data = [
        dict(zip([*names, DOMAIN.targets[0].name, "id"], item.values(), strict=True))
        for item in data
    ]
    (early,) = run(target, tmp_path / "target", data[:20])
    assert early.value["fitted"][0]["source"] is None
    run(source, tmp_path / "source", rows(1200, 1))
    found = run(target, tmp_path / "target", data)
    assert [release.value["fitted"][0]["source"] for release in found] == [3, 3]
    slope = np.array(found[-1].value["coefficients"][0])
    assert slope[0] > 3 * abs(slope[1])
    for name, epsilon in (("source", 2.0), ("target", 0.5)):
        folder = tmp_path / name
        checked = verify_store(folder / "store.sqlite", published=folder / "releases.jsonl")
        assert checked.passed
        assert checked.spent == pytest.approx(epsilon, rel=1e-6)


def test_the_newest_whole_line_counts(tmp_path: Path) -> None:
    path = tmp_path / "releases.jsonl"
    models = LoggedModels(path, domain=DOMAIN)
    assert models.newest() is None
    path.write_bytes(b"")
    assert models.newest() is None

    def line(tick: int, *, padding: int = 0) -> bytes:
        value = {"tick": tick, "coefficients": [[1.0, tick]], "intercept": [0.0], "ready": True}
        return json.dumps({"value": value | {"padding": "x" * padding}}).encode() + b"\n"

    path.write_bytes(line(1) + line(2)[:-1])
    found = models.newest()
    assert found is not None
    assert found.tick == 1
    path.write_bytes(line(1) + line(2, padding=600_000) + b'{"val')
    found = models.newest()
    assert found is not None
    assert found.tick == 2
    assert found.coefficients.tolist() == [[1.0, 2.0]]
    for bad in (b"no json\n", b"[1]\n", b'{"tick": 1}\n', b'{"value": {"tick": 1}}\n'):
        path.write_bytes(bad)
        with pytest.raises(SourceError):
            models.newest()
    with pytest.raises(SourceError, match="cannot be read"):
        LoggedModels(tmp_path, domain=DOMAIN).newest()
