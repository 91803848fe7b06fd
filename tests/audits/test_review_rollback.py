"""What of a rolled-back store can be found, and with what."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from dpstream.cli import ledger as command
from dpstream.domain.batch import RawChunk
from dpstream.domain.domain import Domain
from dpstream.engine.schedule import EveryRecords
from dpstream.engine.session import Session
from dpstream.engine.stream import Stream
from dpstream.learners.sums.running_sum import RunningSum
from dpstream.privacy.budget import Budget
from dpstream.privacy.unit import Neighbours, Unit
from dpstream.stores.sqlite import SqliteStore
from dpstream.stores.verification import verify_store

NAME = "stream.db"


def fed(path: Path, records: int) -> None:
    learner = RunningSum(
        domain=Domain.vectors(1, norm_bound=1.0),
        budget=Budget(epsilon=1.0, delta=1e-6),
        unit=Unit(),
        neighbours=Neighbours.ZERO_OUT,
        horizon=64,
    )
    stream = Stream(learner=learner, schedule=EveryRecords(records=2))
    with Session(stream, store=SqliteStore(path / NAME)) as session:
        data = np.zeros((records, 1))
        list(session.learn(RawChunk(data=data, offset=session.records, length=records)))


def test_the_logs_head_finds_a_rolled_back_store_and_the_ledgers_does_not(tmp_path: Path):
    now, before = tmp_path / "now", tmp_path / "before"
    now.mkdir()
    fed(now, 4)
    shutil.copytree(now, before)
    fed(now, 4)
    newest, older = verify_store(now / NAME), verify_store(before / NAME)
    assert newest.passed
    assert older.passed
    # One charge for life: the ledger's head is the same before and after.
    assert newest.heads == older.heads
    assert len(newest.log_heads) == 4
    assert newest.log_heads[-1] not in older.log_heads
    assert older.log_heads[-1] in newest.log_heads


@pytest.mark.parametrize("forgotten", [False, True])
def test_verify_compares_the_head_that_was_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], forgotten: bool
):
    fed(tmp_path, 4)
    folder = tmp_path
    kept = verify_store(folder / NAME).log_heads[-1]
    if forgotten:
        kept = kept[::-1]
        with pytest.raises(SystemExit):
            command.verify(folder, head=kept, as_json=True)
    else:
        command.verify(folder, head=kept, as_json=True)
    found = json.loads(capsys.readouterr().out)
    assert found["passed"] is not forgotten
    assert found["checks"][-1]["name"] == "head kept elsewhere"
