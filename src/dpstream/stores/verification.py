"""Recompute what a store claims: the ledger's chain, epsilon, and the log.

Everything here but the last check reads public rows alone and needs no key: whoever holds the
store's file can verify it.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from dpstream.engine.identity import identity_digest
from dpstream.engine.ports import KeyProvider, Store
from dpstream.engine.publication import FIRST_DIGEST, chained, from_line
from dpstream.engine.snapshot import Snapshot
from dpstream.errors import DpstreamError, StoreCorrupt, StoreError, require_path
from dpstream.privacy.budget import Budget
from dpstream.privacy.ledger import Ledger, opening_digest
from dpstream.privacy.unit import Unit
from dpstream.release import Measurement
from dpstream.stores.release_log import read_lines
from dpstream.stores.sqlite import SqliteStore


@dataclass(frozen=True)
class Check:
    """One thing that was recomputed.

    Attributes:
        name: what.
        passed: whether it is as claimed.
        detail: the figures, or what is wrong.
    """

    name: str
    passed: bool
    detail: str


@dataclass(frozen=True)
class Verification:
    """What a store's verification found.

    Attributes:
        checks: everything that was recomputed, in order.
        identity: the stream's public declaration.
        spent: epsilon at the budget's delta, recomputed from the events; None if the ledger
            does not verify.
        budget: the declared budget.
        releases: how many are in the log.
        heads: every head the ledger has had, in order. It changes with charges alone, and a
            learner that is charged once has the same head for life.
        log_heads: the digest of every release, in order. It changes with every release and
            covers the ledger's head: one kept elsewhere that is not among them shows that the
            store was rolled back.
    """

    checks: tuple[Check, ...]
    identity: Mapping[str, Any]
    spent: float | None
    budget: Budget
    releases: int
    heads: tuple[str, ...]
    log_heads: tuple[str, ...]

    @property
    def passed(self) -> bool:
        """Whether everything is as claimed."""
        return all(check.passed for check in self.checks)


def verify_store(
    path: Path | str,
    *,
    published: Path | str | None = None,
    keys: KeyProvider | None = None,
) -> Verification:
    """Verify an SQLite store without changing it.

    Args:
        path: the store.
        published: the published log to compare with the store's, or None.
        keys: opens the sealed state too; without it only the public part is verified.

    Raises:
        StoreError: if there is no stream to verify at all.
    """
    store = SqliteStore(path, keys, read_only=True)
    log = (
        None
        if published is None
        else require_path(published, "published", "name the log of releases")
    )
    try:
        return verify(store, published=log, sealed=keys is not None)
    finally:
        store.close()


def declared(identity: Mapping[str, Any]) -> tuple[Budget, Unit]:
    """The budget and the unit of a stored identity.

    Raises:
        StoreCorrupt: if it declares none.
    """
    try:
        return Budget(**identity["budget"]), Unit(**identity["unit"])
    except (KeyError, TypeError, ValueError, OverflowError):
        raise StoreCorrupt(
            "the store's declaration holds no budget and unit; restore it from a copy"
        ) from None


def verify(store: Store, *, published: Path | None = None, sealed: bool = True) -> Verification:
    """Verify any store; see ``verify_store``."""
    identity = store.identity()
    if identity is None:
        raise StoreError(f"{store.name} holds no stream yet; there is nothing to verify")
    budget, unit = declared(identity)
    ledgers: list[Ledger] = []
    heads = [opening_digest(budget, unit)]

    def ledger_chain() -> str:
        rows = store.ledger()
        ledger = Ledger.from_rows(rows, budget=budget, unit=unit)
        heads.extend(row.digest for row in rows)
        ledgers.append(ledger)
        return f"{len(rows)} rows, head {ledger.head[:16]}"

    def epsilon() -> str:
        if not ledgers:
            raise StoreCorrupt("the ledger does not verify")
        curve = ledgers[0].spent()
        text = f"epsilon {curve.epsilon(budget.delta):.6g} of {budget.epsilon:.6g}"
        if not curve.holds(budget.epsilon, budget.delta):
            raise StoreCorrupt(f"{text} at delta {budget.delta:g}: more than the budget")
        return f"{text} at delta {budget.delta:g}"

    log_heads: list[str] = []

    def log_chain() -> str:
        stated = Guaranteed(
            budget,
            unit,
            str(identity.get("neighbours")),
            identity.get("insecure_seed") is not None,
            identity_digest(identity),
        )
        for digest in _verified_log(store, heads, stated, ledgers):
            log_heads.append(digest.hex())
        return f"{len(log_heads)} releases, head {log_heads[-1][:16] if log_heads else 'none'}"

    def copy() -> str:
        assert published is not None
        return _compare(store, published)

    def state() -> str:
        position = Snapshot.from_bytes(store.state()).position
        last = store.last_release()
        if last is not None and position.tick <= last.tick:
            raise StoreCorrupt("the state is older than the log")
        return f"tick {position.tick} is open"

    steps: list[tuple[str, Callable[[], str]]] = [
        ("ledger chain", ledger_chain),
        ("epsilon within budget", epsilon),
        ("release log", log_chain),
    ]
    if published is not None:
        steps.append(("published log", copy))
    if sealed:
        steps.append(("sealed state", state))
    checks = tuple(_check(name, step) for name, step in steps)
    return Verification(
        checks=checks,
        identity=identity,
        spent=ledgers[0].spent().epsilon(budget.delta) if ledgers else None,
        budget=budget,
        releases=len(log_heads),
        heads=tuple(heads),
        log_heads=tuple(log_heads),
    )


def _check(name: str, step: Callable[[], str]) -> Check:
    try:
        return Check(name, True, step())
    except DpstreamError as error:
        return Check(name, False, str(error))


class Guaranteed(NamedTuple):
    """What every release must state: the store's own declaration."""

    budget: Budget
    unit: Unit
    neighbours: str
    insecure_seed: bool
    identity: object


def _verified_log(
    store: Store, heads: list[str], declaration: Guaranteed, ledgers: list[Ledger]
) -> Iterator[bytes]:
    """Walk the log: every digest recomputed, every release at a ledger head that existed.

    Every release states the store's budget, unit and neighbours and whether its noise is a test
    seed's, names the store's whole declaration, and rests on events that were charged by then.
    """
    charged: dict[str, int] = {}
    for ledger in ledgers:
        for row in ledger.rows:
            charged.setdefault(_text(row.event.to_json()), row.index)
    measured = store.measurements()
    waiting = next(measured, None)
    digest = FIRST_DIGEST
    for row in store.releases():
        own: list[Measurement] = []
        while waiting is not None and waiting[0] == row.tick:
            own.append(waiting[1])
            waiting = next(measured, None)
        digest = chained(row.line, tick=row.tick, measurements=own, previous=digest).digest
        release = from_line(row.line)
        if digest != row.digest or release.tick != row.tick:
            raise StoreCorrupt(f"the release at tick {row.tick} does not match its digest")
        rows, head = release.provenance.get("ledger_rows"), release.provenance.get("ledger_head")
        if not isinstance(rows, int) or not 0 <= rows < len(heads) or heads[rows] != head:
            raise StoreCorrupt(f"the release at tick {row.tick} rests on another ledger")
        stated = release.guarantee
        budget = Budget(epsilon=stated.epsilon, delta=stated.delta)
        found = Guaranteed(
            budget,
            stated.unit,
            stated.neighbours.value,
            stated.insecure_seed,
            release.provenance.get("identity"),
        )
        if found[:4] != declaration[:4]:
            raise StoreCorrupt(
                f"the release at tick {row.tick} states another budget, unit or neighbours, or "
                "another seed, than the store declares"
            )
        if found != declaration:
            raise StoreCorrupt(
                f"the release at tick {row.tick} belongs to another declaration: the store's was "
                "altered (bounds, learner, schedule), or the release was"
            )
        if ledgers and any(charged.get(_text(event), rows) >= rows for event in release.events):
            raise StoreCorrupt(f"the release at tick {row.tick} rests on an event never charged")
        yield digest
    if waiting is not None:
        raise StoreCorrupt(f"a measurement of tick {waiting[0]} belongs to no release")


def _text(event: Mapping[str, object]) -> str:
    return json.dumps(event, sort_keys=True)


def _compare(store: Store, published: Path) -> str:
    count = 0
    lines = read_lines(published)
    for row in store.releases():
        line = next(lines, None)
        if line is None:
            raise StoreCorrupt(
                f"{published} ends before tick {row.tick}; resume the stream to have it sent again"
            )
        if line != row.line:
            raise StoreCorrupt(f"{published} differs from the store at tick {row.tick}")
        count += 1
    if next(lines, None) is not None:
        raise StoreCorrupt(f"{published} goes on after the store's last release")
    return f"{count} lines equal"
