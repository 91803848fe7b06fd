"""What every store promises, over all of them."""

import copy
import pickle
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from dpstream.engine.memory import MemoryStore
from dpstream.engine.ports import Commit, Contribution, Publication, ReleaseRow, Store
from dpstream.errors import DpstreamError, StoreCorrupt, StoreError, StoreLocked, StoreMismatch
from dpstream.privacy.budget import Budget
from dpstream.privacy.event import GaussianEvent
from dpstream.privacy.ledger import Ledger
from dpstream.privacy.unit import Unit
from dpstream.release import Measurement
from dpstream.stores.sqlite import SqliteStore

IDENTITY = {"budget": {"epsilon": 1.0, "delta": 1e-6}, "list": [1, {"a": None}]}

MakeStore = Callable[[], Store]


@pytest.fixture(params=["memory", "sqlite"])
def make(request: pytest.FixtureRequest, tmp_path: Path):
    """Opens the same store again and again."""
    opened: list[Store] = []
    memory = MemoryStore()

    def store() -> Store:
        one = memory if request.param == "memory" else SqliteStore(tmp_path / "store.sqlite")
        opened.append(one)
        return one

    yield store
    for one in opened:
        one.close()


@pytest.fixture
def store(make: MakeStore):
    one = make()
    one.acquire()
    one.create(IDENTITY, Commit(state=b"opening"))
    return one


def measured(*address: int) -> Measurement:
    return Measurement(address=address, exponent=-20, value=np.array([1, -(2**62), 3]))


def released(tick: int) -> ReleaseRow:
    return ReleaseRow(tick=tick, line=b'{"tick":%d}' % tick, digest=bytes(32))


def publication(tick: int, *measurements: Measurement) -> Publication:
    return Publication(row=released(tick), measurements=measurements)


def test_an_empty_store_holds_no_stream(make: MakeStore):
    store = make()
    store.acquire()
    assert store.identity() is None
    with pytest.raises(StoreError):
        store.secret()


def test_everything_committed_is_read_back_by_the_next_writer(store: Store, make: MakeStore):
    ledger = Ledger(Budget(epsilon=1.0, delta=1e-6), Unit())
    rows = [ledger.charge(GaussianEvent("a", mu=0.01)), ledger.charge(GaussianEvent("b", mu=0.02))]
    store.commit(Commit(state=b"one", ledger=rows[:1]))
    store.commit(
        Commit(
            state=b"two" * 100_000,
            ledger=rows[1:],
            publications=[publication(4, measured(1, 2), measured(1, 3))],
        )
    )
    secret, stream_id = store.secret(), store.stream_id()
    store.close()
    again = make()
    again.acquire()
    assert again.identity() == IDENTITY
    assert (again.secret(), again.stream_id()) == (secret, stream_id)
    assert again.state() == b"two" * 100_000
    assert again.ledger() == rows
    assert list(again.releases()) == [released(4)]
    assert again.last_release() == again.release(4) == released(4)
    read = list(again.measurements())
    assert [(tick, m.address, m.exponent) for tick, m in read] == [
        (4, (1, 2), -20),
        (4, (1, 3), -20),
    ]
    assert read[0][1].value.dtype == np.int64
    assert read[0][1].value.tolist() == [1, -(2**62), 3]


def test_several_releases_are_committed_at_once(store: Store):
    rows = [publication(2, measured(1)), publication(3), publication(5, measured(4), measured(2))]
    store.commit(Commit(state=b"after", publications=rows))
    assert store.state() == b"after"
    assert list(store.releases()) == [row.row for row in rows]
    assert [(tick, m.address) for tick, m in store.measurements()] == [
        (2, (1,)),
        (5, (4,)),
        (5, (2,)),
    ]


def test_releases_come_in_order_after_a_tick(store: Store):
    for tick in (2, 3, 7):
        store.commit(Commit(state=b"", publications=[publication(tick)]))
    assert [row.tick for row in store.releases(after=2)] == [3, 7]
    assert store.release(5) is None


def test_contributions_add_up_and_old_ones_are_forgotten(store: Store):
    a, b = b"a" * 16, b"b" * 16

    def add(*rows: tuple[bytes, int, int], forget_before: int = 0) -> None:
        contributions = [Contribution(unit=u, tick=t, records=n) for u, t, n in rows]
        store.commit(Commit(state=b"", contributions=contributions, forget_before=forget_before))

    def known(*units: bytes) -> set[tuple[bytes, int, int]]:
        return {(c.unit, c.tick, c.records) for c in store.contributions(units)}

    add((a, 0, 2), (b, 5, 1))
    add((a, 0, 3), (b, 6, 4))
    assert known(a, b) == {(a, 0, 5), (b, 5, 1), (b, 6, 4)}
    assert known(a) == {(a, 0, 5)}
    assert known(*(bytes([i] * 16) for i in range(1200 % 256)), b) == known(a, b)
    add(forget_before=6)
    assert known(a, b) == {(a, 0, 5), (b, 6, 4)}


@pytest.mark.parametrize(
    "second",
    [
        Commit(state=b"second", publications=[publication(2, measured(9))]),
        Commit(state=b"second", publications=[publication(1, measured(8))]),
        Commit(state=b"second", publications=[publication(2, measured(8), measured(8))]),
        Commit(
            state=b"second",
            publications=[publication(2, measured(7)), publication(2, measured(8))],
        ),
        Commit(
            state=b"second",
            publications=[publication(2, measured(8)), publication(3, measured(8))],
        ),
    ],
    ids=[
        "address again",
        "tick again",
        "address twice at once",
        "tick twice at once",
        "address at two ticks",
    ],
)
def test_nothing_is_measured_or_released_twice(store: Store, second: Commit):
    store.commit(Commit(state=b"first", publications=[publication(1, measured(9))]))
    with pytest.raises(StoreCorrupt):
        store.commit(second)
    assert store.state() == b"first"
    assert [row.tick for row in store.releases()] == [1]
    assert len(list(store.measurements())) == 1


def test_a_stream_is_created_once(store: Store):
    with pytest.raises(StoreMismatch):
        store.create(IDENTITY, Commit(state=b"again"))
    assert store.state() == b"opening"


def test_one_writer_at_a_time(store: Store, make: MakeStore):
    with pytest.raises(StoreLocked):
        make().acquire()
    store.commit(Commit(state=b"still mine"))
    store.close()
    second = make()
    second.acquire()
    assert second.state() == b"still mine"


def test_a_closed_store_takes_no_commit(store: Store):
    store.close()
    with pytest.raises(StoreLocked):
        store.commit(Commit(state=b"late"))
    store.close()


def test_secrets_differ_between_streams(tmp_path: Path):
    stores: list[Store] = [MemoryStore(), MemoryStore()]
    stores += [SqliteStore(tmp_path / "1.sqlite"), SqliteStore(tmp_path / "2.sqlite")]
    for one in stores:
        one.acquire()
        one.create(IDENTITY, Commit(state=b""))
    assert len({one.secret() for one in stores}) == len({one.stream_id() for one in stores}) == 4
    for one in stores:
        one.close()


def test_no_store_can_be_copied(store: Store):
    for copying in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises((DpstreamError, TypeError)):
            copying(store)
