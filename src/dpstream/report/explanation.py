"""An (epsilon, delta) guarantee in plain sentences, and an attacker's best odds under it."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpstream.arrays import FloatArray
from dpstream.privacy.budget import Budget
from dpstream.privacy.curve import PrivacyCurve
from dpstream.privacy.trade_off import best_accuracy, group_curve, largest_belief, least_missed
from dpstream.privacy.unit import Neighbours, Unit
from dpstream.report.card import seen, whose
from dpstream.report.figure import Line, line_figure
from dpstream.report.page import Block, Picture, Section, Table, Text, render_page

ALARMS = (0.001, 0.01, 0.05, 0.1)
"""False alarms at which an attacker's catch is told."""

PRIORS = (0.001, 0.01, 0.1, 0.5)
"""Beliefs beforehand for which the largest afterwards is told."""

_ENDS = 1e-9
"""Down to this delta the ends of the trade-off are drawn."""

GROUPS = (1, 2, 5, 10, 50)
"""Sizes of groups of units that might all be one person's."""


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """What a guarantee means for whoever is in the data.

    Attributes:
        budget: epsilon and delta.
        unit: whose contribution is hidden.
        neighbours: what it is hidden against.
        curve: everything that is promised; the budget is a point of it.
        exact: whether the curve is the mechanism's own, or the budget's alone.
        promise: for how long it holds, if that is known.
    """

    budget: Budget
    unit: Unit
    neighbours: Neighbours
    curve: PrivacyCurve
    exact: bool
    promise: str | None = None

    @property
    def whose(self) -> str:
        """The unit in words."""
        return whose(self.unit)

    @property
    def lasting(self) -> bool:
        """Whether it holds against everything that is ever published."""
        return seen(self.promise) == seen(None)

    @property
    def accuracy(self) -> float:
        """An attacker's best share of right answers, where a coin has one half."""
        return best_accuracy(self.curve)

    def found(self, alarms: FloatArray) -> FloatArray:
        """The largest shares of present units found, at those rates of false alarms."""
        # Epsilons beyond the budget's tighten the ends of the curve of Gaussian noise.
        wide = self.curve.epsilon(_ENDS)
        largest = wide if math.isfinite(wide) else self.budget.epsilon
        return 1.0 - least_missed(self.curve, alarms, largest=largest)

    def catch(self, alarms: float) -> float:
        """The share of present units that an attacker finds at that rate of false alarms."""
        return float(self.found(np.array([alarms]))[0])

    def groups(self) -> list[tuple[int, float]]:
        """For groups of units: how many, and the attacker's best share of right answers."""
        epsilon, delta = self.budget.epsilon, self.budget.delta
        return [
            (
                count,
                best_accuracy(group_curve(self.curve, epsilon=epsilon, delta=delta, count=count)),
            )
            for count in GROUPS
        ]

    def sentences(self) -> list[str]:
        """The guarantee in plain words."""
        against = (
            "as if it had said nothing"
            if self.neighbours is Neighbours.ZERO_OUT
            else "as if it had said anything else"
        )
        failure = (
            f"; with probability at most {self.budget.delta:.3g} this limit may be exceeded"
            if self.budget.delta
            else ""
        )
        found = self.catch(0.01)
        lasting = [f"For how long: {self.promise}."] if self.promise else []
        return [
            f"Hidden is what {self.whose} said: {seen(self.promise)} looks almost {against}.",
            "Take an attacker who knows every other record and all of the software, sees "
            f"{seen(self.promise)}, and must tell which of the two it was.",
            f"Guessing by a coin she is right in 50 of 100 cases; with all of that she is right in "
            f"at most {100 * self.accuracy:.1f}.",
            f"If she may wrongly accuse 1 in 100, she finds at most {100 * found:.1f} in 100.",
            f"If she held something of it for 1 % likely before, she holds it for at most "
            f"{100 * largest_belief(0.01, self.budget.epsilon):.2g} % likely after{failure}.",
            *lasting,
            "It holds whatever else she knows now or learns later, and however the published "
            "numbers are used."
            if self.lasting
            else "It holds whatever else she knows, and not against what is published later: once "
            "a record has left the window its contribution can be told exactly.",
            "It does not hide what is learnt of people in general, from anyone's data or without "
            "them.",
        ]

    def bar(self, width: int = 40) -> str:
        """The attacker's best share of right answers between a coin's and certainty."""
        filled = round(width * (2.0 * self.accuracy - 1.0))
        return f"coin 50 % |{'#' * filled}{'.' * (width - filled)}| 100 % certain"

    def to_json(self) -> Mapping[str, Any]:
        """Every number and sentence."""
        epsilon = self.budget.epsilon
        return {
            "epsilon": epsilon,
            "delta": self.budget.delta,
            "unit": {"kind": self.unit.kind, "cap": self.unit.cap},
            "neighbours": self.neighbours.value,
            "basis": "the mechanism's own curve" if self.exact else "epsilon and delta alone",
            "best_accuracy": self.accuracy,
            "found_at_false_alarms": [
                {"false_alarms": rate, "found": self.catch(rate)} for rate in ALARMS
            ],
            "belief": [
                {"before": prior, "after_at_most": largest_belief(prior, epsilon)}
                for prior in PRIORS
            ],
            "groups": [
                {"units": count, "best_accuracy": accuracy} for count, accuracy in self.groups()
            ],
            "promise": self.promise,
            "sentences": self.sentences(),
        }


def explanation_blocks(explained: Explanation) -> list[Block]:
    """Sentences, picture and tables."""
    alarms = np.linspace(0.0, 1.0, 401)
    picture = line_figure(
        {
            "the best attacker": Line(x=100 * alarms, y=100 * explained.found(alarms)),
            "a coin": Line(x=100 * alarms, y=100 * alarms),
        },
        x_label="wrongly accused, of 100",
        y_label="found, of 100",
    )
    epsilon = explained.budget.epsilon
    return [
        *(Text(sentence) for sentence in explained.sentences()),
        Picture(picture, "What the best attacker finds, against how many she wrongly accuses."),
        Table(
            ("wrongly accused", "found at most"),
            [(_percent(rate), _percent(explained.catch(rate))) for rate in ALARMS],
        ),
        Table(
            ("held likely before", "after, at most"),
            [(_percent(prior), _percent(largest_belief(prior, epsilon))) for prior in PRIORS],
        ),
        Table(
            (f"{explained.unit.kind}s that are one person's", "right answers at most"),
            [(str(count), _percent(accuracy)) for count, accuracy in explained.groups()],
        ),
    ]


def explanation_page(explained: Explanation) -> str:
    """A page of its own."""
    budget = explained.budget
    title = f"What epsilon {budget.epsilon:g} and delta {budget.delta:g} mean"
    lead = f"{explained.neighbours.value} neighbours; hidden: {explained.whose}"
    sections: list[Section] = [("In plain words", explanation_blocks(explained))]
    return render_page(title, lead, sections)


def _percent(share: float) -> str:
    return f"{100 * share:.3g} %"
