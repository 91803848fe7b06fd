"""A public projection is one stream's own: drawn when the stream begins, kept, never had twice."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from dpstream.domain.domain import Domain
from dpstream.engine.memory import MemoryStore
from dpstream.engine.ports import Store
from dpstream.engine.schedule import EveryRecords
from dpstream.engine.session import Session
from dpstream.engine.stream import Stream
from dpstream.errors import ConfigurationError, StreamChanged
from dpstream.geometry.l1_ball import L1Ball
from dpstream.learners.incremental.auto import AutoIncremental
from dpstream.learners.incremental.priv_inc_reg2 import PrivIncReg2
from dpstream.mechanisms.public import public_generator
from dpstream.privacy.budget import Budget
from dpstream.privacy.unit import Neighbours, Unit
from dpstream.stores.sqlite import SqliteStore
from dpstream.testing.small_stream import ArraySource

WIDTH, TICK = 12, 20


def declared(insecure_seed: int | None = None, **settings: object) -> Stream[object]:
    given: dict[str, object] = {
        "domain": Domain.vectors(WIDTH, norm_bound=1.0, target_bound=1.0),
        "budget": Budget(epsilon=1.0, delta=1e-6),
        "unit": Unit(),
        "neighbours": Neighbours.ZERO_OUT,
        "horizon": 8,
        "constraint": L1Ball(dimension=WIDTH),
        "projected_dimension": 5,
        "tick_records": TICK,
    }
    learner = PrivIncReg2(**(given | settings))
    return Stream(learner=learner, schedule=EveryRecords(records=TICK), insecure_seed=insecure_seed)


def rows(count: int = 8 * TICK) -> np.ndarray:
    return public_generator(1).normal(size=(count, WIDTH + 1)) / 4


def begun(stream: Stream[object], store: Store) -> str:
    """The digest of the projection that a stream begins, or goes on, with."""
    with Session(stream, store=store) as session:
        return session.stream.learner.describe()["projection"]["digest"]


def test_streams_of_one_declaration_have_projections_of_their_own(tmp_path: Path) -> None:
    stream = declared()
    stores = [MemoryStore(), MemoryStore(), SqliteStore(tmp_path / "a.db")]
    digests = [begun(stream, store) for store in stores]
    assert len(set(digests)) == 3
    # Opened again, each goes on with its own, to the bit.
    reopened = [*stores[:2], SqliteStore(tmp_path / "a.db")]
    assert [begun(stream, store) for store in reopened] == digests
    assert len({SqliteStore(tmp_path / "a.db").identity()["salt"], ""}) == 2


def test_a_resumed_stream_publishes_what_an_uninterrupted_one_does(tmp_path: Path) -> None:
    stream, data = declared(insecure_seed=3), rows()

    def released(store: Callable[[], Store], stops: list[int]) -> list[object]:
        for stop in stops:
            with Session(stream, store=store()) as session:
                list(session.run(ArraySource(data[:stop], [33])))
                values = [release.value for release in session.releases()]
        return values

    memory = MemoryStore()
    whole = released(lambda: memory, [len(data)])
    assert len(whole) == 8
    assert released(lambda: SqliteStore(tmp_path / "b.db"), [30, 71, len(data)]) == whole


def test_a_salted_stream_learns_and_releases_after_resuming() -> None:
    store, data = MemoryStore(), rows()
    for stop in (50, len(data)):
        with Session(declared(), store=store) as session:
            list(session.run(ArraySource(data[:stop], [33])))
    with Session(declared(), store=store) as session:
        assert len(list(session.releases())) == 8


@pytest.mark.parametrize("place", ["memory", "folder", "folders"])
def test_a_named_projection_is_not_had_twice(place: str, tmp_path: Path) -> None:
    def store(name: str) -> Store:
        if place == "memory":
            return MemoryStore()
        path = tmp_path / (f"{name}.db" if place == "folder" else f"{name}/stream.db")
        path.parent.mkdir(exist_ok=True)
        return SqliteStore(path)

    named, first, second = declared(projection_seed=7), store("first"), store("second")
    begun(named, first)
    with pytest.raises(ConfigurationError, match=r"seed names the projection of .*leave"):
        Session(named, store=second)
    if isinstance(second, SqliteStore):
        assert not Path(second.name).exists()  # so that the same place serves for what is mended
    # The stream itself goes on; another number, another declaration or none at all begin.
    first = first if place == "memory" else SqliteStore(Path(first.name))
    begun(named, first)
    for number, other in enumerate(
        (
            declared(projection_seed=8),
            declared(projection_seed=7, budget=Budget(epsilon=2.0, delta=1e-6)),
            declared(),
            declared(projection_seed=7, insecure_seed=1),
        )
    ):
        begun(other, store(f"other{number}"))


def test_nothing_projected_is_nothing_shared() -> None:
    whole = declared(projection_seed=7, projected_dimension=WIDTH)
    stores = [MemoryStore(), MemoryStore()]
    for store in stores:
        begun(whole, store)


def test_streams_that_cannot_be_read_stand_in_nobodys_way(tmp_path: Path) -> None:
    (tmp_path / "broken.db").write_bytes(b"no store at all" * 100)
    (tmp_path / "folder.db").mkdir()
    SqliteStore(tmp_path / "empty.db").acquire()
    begun(declared(projection_seed=7), SqliteStore(tmp_path / "new.db"))


def test_a_store_refuses_another_projection() -> None:
    store = MemoryStore()
    begun(declared(), store)
    with pytest.raises(StreamChanged, match="salt was"):
        Session(declared(projection_seed=7), store=store)
    named = MemoryStore()
    begun(declared(projection_seed=7), named)
    with pytest.raises(StreamChanged, match=r"projection\.seed was 7"):
        Session(declared(), store=named)


def test_what_is_chosen_among_has_a_projection_of_its_own() -> None:
    stream = declared()
    auto = AutoIncremental(
        domain=stream.domain,
        budget=stream.budget,
        unit=stream.unit,
        neighbours=stream.neighbours,
        horizon=8,
        constraint=L1Ball(dimension=WIDTH),
        tick_records=TICK,
        draws=1,
    )
    plain = {item.name: item.learner for item in auto.comparison.prospects}["priv_inc_reg1"]
    for chosen, salted in ((stream.learner, True), (plain, False)):
        object.__setattr__(auto, "chosen", chosen)
        assert (auto.salt is not None) == salted
        digests = [
            drawn.describe().get("projection", {}).get("digest")
            for drawn in (auto.drawn_for("one"), auto.drawn_for("two"), auto.drawn_for("one"))
        ]
        assert digests[0] == digests[2]
        assert (digests[0] != digests[1]) == salted
        assert auto.drawn_for("one").shares_draw(auto.drawn_for("one").describe()) == salted


def test_a_seed_is_a_number() -> None:
    with pytest.raises(ConfigurationError, match="projection_seed came as str; leave it out"):
        declared(projection_seed="seven")
