"""The privacy card says what the ledger and the declaration say."""

import dataclasses
import json
import re

import numpy as np
import pytest

import dpstream as dp
from dpstream.mechanisms.public import public_generator
from dpstream.privacy.ledger import LedgerRow
from dpstream.release import Guarantee
from dpstream.report.card import DECLARED, PrivacyCard, privacy_card

DOMAIN = dp.Domain(
    [dp.Numeric("age", 0, 100), dp.Categorical("region", ["north", "south"]), dp.Boolean("paid")],
    dp.IntervalTarget("spent", 0, 50),
)


def run(
    *,
    unit: dp.Unit | None = None,
    neighbours: dp.Neighbours = dp.Neighbours.ZERO_OUT,
    insecure_seed: int | None = None,
) -> tuple[Guarantee, tuple[LedgerRow, ...]]:
    learner = dp.PrivIncReg1(
        domain=DOMAIN,
        budget=dp.Budget(epsilon=1.5, delta=1e-6),
        unit=unit or dp.Unit(),
        neighbours=neighbours,
        horizon=2,
    )
    stream = dp.Stream(
        learner=learner, schedule=dp.EveryRecords(records=20), insecure_seed=insecure_seed
    )
    generator = public_generator(0)
    data = {
        "age": generator.uniform(0, 100, 20),
        "region": ["north"] * 20,
        "paid": [True] * 20,
        "spent": generator.uniform(0, 50, 20),
        "customer": [str(place // 2) for place in range(20)],
    }
    with dp.Session(stream, store=dp.MemoryStore()) as session:
        release = list(session.run(dp.MemorySource(data)))[-1]
        return release.guarantee, session.ledger.rows


def card(**options: object) -> PrivacyCard:
    guarantee, rows = run(**options)
    return privacy_card(guarantee, domain=DOMAIN, rows=rows)


def test_epsilon_is_recomputed_from_the_events_and_nearly_all_is_spent_in_advance() -> None:
    found = card()
    assert 1.49 < found.epsilon_spent <= 1.5
    assert found.events[0]["kind"] == "gaussian"


def test_the_promise_is_one_sentence_with_the_attackers_odds() -> None:
    promise = card().promise
    assert promise.count(". ") == 0
    shown = float(re.search(r"at most ([\d.]+) of 100", promise)[1])
    # Of (epsilon, delta)-privacy: (e^epsilon + delta) / (1 + e^epsilon).
    assert shown == pytest.approx(100 * np.exp(1.5) / (1 + np.exp(1.5)), abs=0.06)


def test_every_bound_is_named_with_where_it_comes_from() -> None:
    guarantee, rows = run()
    found = privacy_card(
        guarantee, domain=DOMAIN, rows=rows, provenance={"age": "scaled from [0, 10]"}
    )
    stated = {item.name: (item.stated, item.provenance) for item in found.bounds}
    assert stated == {
        "age": ("a number, clipped to [0, 100]", "scaled from [0, 10]"),
        "region": ("one of north, south, or other", DECLARED),
        "paid": ("true or false", DECLARED),
        "spent": ("a number, clipped to [0, 50]", DECLARED),
    }


def test_units_and_neighbours_are_named_and_change_what_is_not_promised() -> None:
    users = card(
        unit=dp.Unit(kind="user", cap=3, column="customer"), neighbours=dp.Neighbours.REPLACE
    )
    assert "one customer" in users.unit
    assert "at most 3" in users.unit
    assert users.neighbours.startswith("replace")
    assert any("Nothing beyond one customer" in line for line in users.not_promised)
    assert any("Nothing beyond one record" in line for line in card().not_promised)


def test_a_rehearsal_promises_nothing() -> None:
    found = card(insecure_seed=3)
    assert found.rehearsal
    assert found.promise.startswith("NOTHING is promised")
    assert "No differential privacy" in found.statement


def test_the_text_has_every_section_and_the_json_reads_back() -> None:
    found = card()
    text = str(found)
    for heading, lines in found.sections():
        assert heading in text
        assert lines
    assert json.loads(json.dumps(found.to_json())) == found.to_json()


def test_an_altered_ledger_makes_no_card() -> None:
    guarantee, rows = run()
    event = dataclasses.replace(rows[0].event, mu=0.01)
    altered = (dataclasses.replace(rows[0], event=event),)
    with pytest.raises(dp.DpstreamError, match="does not match its digest"):
        privacy_card(guarantee, domain=DOMAIN, rows=altered)
