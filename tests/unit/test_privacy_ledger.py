import copy
import hashlib
import json
import math
import pickle
from dataclasses import replace

import pytest

from dpstream.errors import BudgetExceeded, ConfigurationError, StoreCorrupt, StoreMismatch
from dpstream.privacy.budget import Budget
from dpstream.privacy.calibrate import gaussian_mu, pure_epsilon, zcdp_rho
from dpstream.privacy.coverage import Coverage, _rank, disjoint
from dpstream.privacy.curve import PrivacyCurve
from dpstream.privacy.event import (
    ApproximateEvent,
    ComposedEvent,
    ExponentialEvent,
    FailureEvent,
    GaussianEvent,
    PureEvent,
    RepeatedEvent,
    ZeroConcentratedEvent,
)
from dpstream.privacy.ledger import Ledger, LedgerRow, verify_rows
from dpstream.privacy.unit import Unit

BUDGET = Budget(epsilon=1.0, delta=1e-6)
PURE = Budget(epsilon=1.0, delta=0.0)
RECORD = Unit()
USER = Unit(kind="user", cap=3, column="id")
MU = gaussian_mu(BUDGET)


def _charged(*events, budget=BUDGET, unit=RECORD):
    ledger = Ledger(budget, unit)
    for event in events:
        ledger.charge(event)
    return ledger


@pytest.mark.parametrize(
    ("budget", "event"),
    [
        (BUDGET, GaussianEvent("whole", mu=MU)),
        (BUDGET, ZeroConcentratedEvent("whole", rho=zcdp_rho(BUDGET))),
        (PURE, PureEvent("whole", epsilon=pure_epsilon(PURE))),
        (PURE, PureEvent("whole", epsilon=1.0)),
        (BUDGET, ApproximateEvent("whole", epsilon=1.0, delta=1e-6)),
    ],
)
def test_a_calibrated_budget_is_chargeable_once(budget, event):
    ledger = Ledger(budget, RECORD)
    assert ledger.admits(event)
    row = ledger.charge(event)
    assert ledger.rows == (row,)
    assert not ledger.admits(event)
    with pytest.raises(BudgetExceeded, match="'whole' would spend epsilon="):
        ledger.charge(event)
    assert ledger.rows == (row,)
    assert ledger.remaining <= 1e-8


@pytest.mark.parametrize("shares", [3, 7, 1000])
def test_rounded_shares_of_a_calibrated_budget_are_chargeable(shares):
    gaussian = _charged(*[GaussianEvent("g", mu=MU / math.sqrt(shares))] * shares)
    assert gaussian.spent().epsilon(1e-6) <= 1.0
    # A noise scale and back, as a mechanism would compute it.
    sigma = 3.7 / MU
    assert _charged(GaussianEvent("g", mu=3.7 / sigma)).remaining >= 0.0
    step = pure_epsilon(PURE) / shares
    pure = _charged(*[PureEvent("p", epsilon=step)] * shares, budget=PURE)
    assert pure.spent().epsilon(0.0) <= 1.0


def test_a_refusal_leaves_the_ledger_unchanged():
    ledger = _charged(PureEvent("p", epsilon=0.7), budget=PURE)
    head, spent = ledger.head, ledger.spent()
    event = ComposedEvent((PureEvent("a", epsilon=0.2), PureEvent("b", epsilon=0.2)))
    with pytest.raises(BudgetExceeded, match="charging composed event would spend"):
        ledger.charge(event)
    assert (ledger.head, ledger.spent(), len(ledger.rows)) == (head, spent, 1)
    assert ledger.remaining == pytest.approx(0.3)


def test_no_gaussian_noise_on_a_pure_budget():
    with pytest.raises(BudgetExceeded, match="epsilon=inf"):
        Ledger(PURE, RECORD).charge(GaussianEvent("g", mu=1e-9))


def test_disjoint_positions_compose_in_parallel_for_records_only():
    events = [GaussianEvent("g", mu=MU, covers=(i, i + 1)) for i in range(5)]
    assert _charged(*events).spent().epsilon(1e-6) == pytest.approx(1.0, rel=1e-7)
    with pytest.raises(BudgetExceeded):
        _charged(*events[:2], unit=USER)
    touching = GaussianEvent("g", mu=0.01, covers=(4, 9))
    assert not _charged(*events).admits(touching)
    assert _charged(*events).admits(replace(touching, covers=(5, 9)))


def test_an_event_for_all_positions_meets_every_interval():
    ledger = _charged(
        PureEvent("all", epsilon=0.3),
        PureEvent("here", epsilon=0.5, covers=(10, 20)),
        PureEvent("there", epsilon=0.6, covers=(20, 30)),
        budget=PURE,
    )
    assert ledger.spent().pure_epsilon == pytest.approx(0.9)
    assert not ledger.admits(PureEvent("all", epsilon=0.2))
    assert ledger.admits(PureEvent("here", epsilon=0.2, covers=(0, 20)))
    assert not ledger.admits(PureEvent("both", epsilon=0.2, covers=(0, 21)))


def test_parts_of_one_event_are_charged_where_they_lie():
    event = ComposedEvent(
        (
            RepeatedEvent(PureEvent("a", epsilon=0.3, covers=(0, 10)), 2),
            PureEvent("b", epsilon=0.3, covers=(5, 20)),
            PureEvent("c", epsilon=0.3, covers=(10, 12)),
            PureEvent("d", epsilon=0.1),
            PureEvent("e", epsilon=0.9, covers=(30, 40)),
        )
    )
    ledger = Ledger(PURE, RECORD)
    assert ledger.admits(event)
    ledger.charge(event)
    assert ledger.spent().pure_epsilon == pytest.approx(1.0)
    user = Ledger(PURE, USER)
    assert not user.admits(event)


def test_incomparable_positions_are_told_apart():
    # One position paid with Gaussian noise, the other with a selection: the part-wise maximum of
    # the two exceeds the budget, but neither position does.
    ledger = _charged(
        GaussianEvent("g", mu=0.95 * MU, covers=(0, 10)),
        ExponentialEvent("e", epsilon=0.9, covers=(10, 20)),
    )
    small = FailureEvent("f", delta=1e-9)
    both = ledger._coverage.envelope(None).compose(PrivacyCurve.failure(1e-9))
    assert not both.holds(BUDGET.epsilon, BUDGET.delta)
    ledger.charge(small)
    assert ledger.spent().pure_steps == ()
    assert ledger.spent().exponential_steps == ()
    assert not ledger.admits(ExponentialEvent("e", epsilon=0.9))


def test_an_event_of_nothing_is_admitted_and_recorded():
    ledger = _charged(GaussianEvent("g", mu=MU), ComposedEvent(()))
    assert len(ledger.rows) == 2
    ledger.charge(RepeatedEvent(GaussianEvent("g", mu=MU), 0))
    assert ledger.remaining >= 0.0


def test_opened_ledger():
    ledger = Ledger(BUDGET, USER)
    assert (ledger.budget, ledger.unit, ledger.rows) == (BUDGET, USER, ())
    assert ledger.remaining == 1.0
    assert ledger.spent() == PrivacyCurve.none()
    assert ledger.head != Ledger(BUDGET, RECORD).head
    assert ledger.head != Ledger(PURE, USER).head


def _rows(count=4):
    return list(_charged(*[GaussianEvent(f"g{i}", mu=0.01) for i in range(count)]).rows)


def test_rows_survive_json_and_rebuild_the_ledger():
    rows = _rows()
    texts = [json.dumps(row.to_json()) for row in rows]
    read = [LedgerRow.from_json(json.loads(text)) for text in texts]
    assert read == rows
    ledger = Ledger.from_rows(read, budget=BUDGET, unit=RECORD, head=rows[-1].digest)
    assert ledger.spent() == PrivacyCurve.gaussian(0.01).repeat(4)
    event = GaussianEvent("next", mu=0.01)
    original = Ledger.from_rows(rows, budget=BUDGET, unit=RECORD)
    assert ledger.charge(event) == original.charge(event)


def test_digests_do_not_change_between_versions():
    # Stored ledgers must verify for ever: this digest is part of the format.
    row = LedgerRow.following(0, PureEvent("p", epsilon=0.1, covers=(1, 4)), "ab")
    text = (
        '{"event":{"covers":[1,4],"epsilon":0.1,"kind":"pure","name":"p"},'
        '"index":0,"previous_digest":"ab"}'
    )
    assert row.digest == hashlib.sha256(text.encode()).hexdigest()
    opening = (
        '{"budget":{"delta":1e-06,"epsilon":1.0},"format":1,'
        '"unit":{"cap":3,"column":"id","kind":"user","period":"life"}}'
    )
    assert Ledger(BUDGET, USER).head == hashlib.sha256(opening.encode()).hexdigest()


def _altered(rows):
    cheaper = replace(rows[1], event=GaussianEvent("g1", mu=0.001))
    return [rows[0], cheaper, *rows[2:]]


def _forged(rows):
    forged = LedgerRow.following(1, GaussianEvent("g1", mu=0.001), rows[0].digest)
    return [rows[0], forged, *rows[2:]]


def _renumbered(rows):
    return [rows[0], LedgerRow.following(1, rows[2].event, rows[1].digest)]


@pytest.mark.parametrize(
    "tamper",
    [
        _altered,
        _forged,
        _renumbered,
        lambda rows: rows[1:],
        lambda rows: [rows[0], *rows[2:]],
        lambda rows: [rows[1], rows[0], *rows[2:]],
        lambda rows: [*rows, rows[-1]],
        lambda rows: [replace(rows[0], digest="0" * 64), *rows[1:]],
    ],
)
def test_tampering_is_found(tamper):
    rows = tamper(_rows())
    for check in (verify_rows, Ledger.from_rows):
        with pytest.raises(StoreCorrupt, match="ledger row"):
            check(rows, budget=BUDGET, unit=RECORD)


def test_a_row_that_is_missing_is_named():
    rows = _rows()
    with pytest.raises(StoreCorrupt, match="ledger row 1 calls itself 2; a row is missing"):
        verify_rows([rows[0], *rows[2:]], budget=BUDGET, unit=RECORD)
    with pytest.raises(StoreCorrupt, match="ledger row 1 does not match its digest; it was alt"):
        verify_rows(_altered(rows), budget=BUDGET, unit=RECORD)
    with pytest.raises(StoreCorrupt, match="ledger row 2 does not follow row 1"):
        verify_rows(_forged(rows), budget=BUDGET, unit=RECORD)


def test_a_missing_tail_is_found_with_the_head():
    rows = _rows()
    verify_rows(rows[:-1], budget=BUDGET, unit=RECORD)
    with pytest.raises(StoreCorrupt, match="missing at its end"):
        verify_rows(rows[:-1], budget=BUDGET, unit=RECORD, head=rows[-1].digest)
    with pytest.raises(StoreCorrupt, match="missing at its end"):
        verify_rows([], budget=BUDGET, unit=RECORD, head=rows[-1].digest)


@pytest.mark.parametrize(("budget", "unit"), [(PURE, RECORD), (BUDGET, USER)])
def test_another_budget_or_unit_is_a_mismatch(budget, unit):
    with pytest.raises(StoreMismatch, match="another budget or unit"):
        Ledger.from_rows(_rows(), budget=budget, unit=unit)


@pytest.mark.parametrize("missing", ["index", "event", "previous_digest", "digest"])
def test_an_incomplete_row_is_corrupt(missing):
    description = _rows(1)[0].to_json() | {missing: None}
    with pytest.raises(StoreCorrupt, match="lacks"):
        LedgerRow.from_json(description)


def test_what_was_spent_is_taken_up_even_beyond_the_budget():
    # As if an earlier version had bounded these events lower: chained rows, too much in sum.
    first = LedgerRow.following(
        0, PureEvent("p", epsilon=0.9, covers=(0, 5)), Ledger(PURE, RECORD).head
    )
    second = LedgerRow.following(1, PureEvent("p", epsilon=0.9, covers=(0, 5)), first.digest)
    ledger = Ledger.from_rows([first, second], budget=PURE, unit=RECORD)
    assert ledger.remaining == 0.0
    assert not ledger.admits(PureEvent("p", epsilon=0.1, covers=(4, 6)))
    assert not ledger.admits(PureEvent("p", epsilon=0.1))
    assert ledger.admits(PureEvent("p", epsilon=0.1, covers=(5, 6)))


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_ledger_cannot_be_duplicated(duplicate):
    with pytest.raises(ConfigurationError, match="second budget"):
        duplicate(Ledger(BUDGET, RECORD))


def test_many_charges():
    # Every shape of overlap a schedule makes: epochs, sliding windows and growing prefixes.
    count = 1500
    ledger = Ledger(BUDGET, RECORD)
    for index in range(count):
        ledger.charge(GaussianEvent("epoch", mu=MU / 2, covers=(10 * index, 10 * index + 10)))
        start = 10 * index
        ledger.charge(GaussianEvent("window", mu=MU / 20, covers=(start, start + 1000)))
        ledger.charge(GaussianEvent("refit", mu=MU / 100, covers=(0, start + 10)))
    # The first of the positions in 100 windows pays most: one epoch, 100 windows and all
    # refits but those before it.
    refits = count - 99
    expected = math.sqrt(1 / 4 + 100 / 400 + refits / 10**4)
    assert ledger.spent().mu == pytest.approx(expected * MU, rel=1e-12)


def test_coverage_agrees_with_counting_position_by_position():
    generator = _Congruence(7)
    coverage = Coverage()
    counts = [0] * 64
    for _ in range(300):
        first = generator.below(63)
        end = first + 1 + generator.below(64 - first)
        if generator.below(10) == 0:
            coverage.charge(PrivacyCurve.pure(1.0), None)
            counts = [paid + 1 for paid in counts]
        else:
            coverage.charge(PrivacyCurve.pure(1.0), (first, end))
            counts[first:end] = [paid + 1 for paid in counts[first:end]]
        low = generator.below(60)
        high = low + 1 + generator.below(64 - low)
        asked = coverage.envelope((low, high))
        assert asked == PrivacyCurve.pure(1.0).repeat(max(counts[low:high]))
        segments = {round(curve.pure_epsilon) for curve in coverage.segments((low, high))}
        assert segments == set(counts[low:high])
        worst = coverage.worst(lambda curve: curve.pure_epsilon)
        assert worst.pure_epsilon == max(counts)


class _Congruence:
    """A reproducible source of test positions."""

    def __init__(self, seed):
        self.state = seed

    def below(self, bound):
        self.state = (self.state * 6364136223846793005 + 1442695040888963407) % 2**64
        return (self.state >> 33) % bound


def test_charges_and_questions_meet_few_of_many_segments(monkeypatch):
    segments = 1024
    coverage = Coverage()
    for first in range(segments):
        coverage.charge(PrivacyCurve.pure(1.0), (first, first + 1))
    compose, calls = PrivacyCurve.compose, []

    def counted(self, other):
        calls.append(None)
        return compose(self, other)

    monkeypatch.setattr(PrivacyCurve, "compose", counted)
    # A treap of so many cuts is some 25 nodes deep; two paths of it are walked, none below.
    for covers in ((0, segments), (1, segments - 1), (300, 900)):
        calls.clear()
        coverage.charge(PrivacyCurve.pure(1.0), covers)
        assert 0 < len(calls) < 200
        calls.clear()
        assert coverage.envelope(covers).pure_epsilon >= 2.0
        assert 0 < len(calls) < 100


def test_disjoint_rearranges_without_loss():
    one = PrivacyCurve.pure(1.0)
    everywhere, local = disjoint([(one, None), (one, (0, 4)), (one, (2, 6)), (one, (8, 9))])
    assert everywhere == one
    expected = {(0, 2): 1, (2, 4): 2, (4, 6): 1, (6, 8): 0, (8, 9): 1}
    assert {covers: round(curve.pure_epsilon) for curve, covers in local} == expected


def test_ranks_are_the_finaliser_of_splitmix64() -> None:
    # The generator's published first outputs from seed 0: a step of the golden gamma, scrambled.
    gamma = 0x9E3779B97F4A7C15
    expected = [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F, 0xF88BB8A8724C81EC]
    assert [_rank(step * gamma) for step in range(4)] == expected


def test_the_first_position_alone_is_a_segment() -> None:
    coverage = Coverage()
    coverage.charge(PrivacyCurve.pure(0.5), None)
    assert list(coverage.segments((0, 1))) == [PrivacyCurve.pure(0.5)]
    coverage.charge(PrivacyCurve.pure(0.25), (0, 1))
    assert list(coverage.segments((0, 1))) == [
        PrivacyCurve.pure(0.5).compose(PrivacyCurve.pure(0.25))
    ]
    whole = list(coverage.segments(None))
    assert len(whole) == 2
    assert PrivacyCurve.pure(0.5).compose(PrivacyCurve.pure(0.25)) in whole


def test_two_charges_that_overlap_are_rearranged_too() -> None:
    first, second = PrivacyCurve.pure(0.5), PrivacyCurve.pure(0.25)
    everywhere, local = disjoint([(first, (0, 4)), (second, (2, 6))])
    assert everywhere == PrivacyCurve.none()
    assert local == [(first, (0, 2)), (first.compose(second), (2, 4)), (second, (4, 6))]
    assert disjoint([(first, (0, 4))])[1] == [(first, (0, 4))]
