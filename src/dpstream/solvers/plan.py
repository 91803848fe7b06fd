"""The contract of batch solvers: a plan that sees no data, and a release that follows it."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Protocol, runtime_checkable

from dpstream.arrays import FloatArray
from dpstream.domain.batch import Batch
from dpstream.errors import ConfigurationError
from dpstream.mechanisms.mechanism import Noise
from dpstream.privacy.budget import Budget
from dpstream.privacy.calibrate import calibrate, gaussian_mu, zcdp_rho
from dpstream.privacy.curve import PrivacyCurve
from dpstream.privacy.event import Event
from dpstream.release import Measurement
from dpstream.solvers.problem import Problem

Setting = float | int | str | bool


@dataclass(frozen=True, kw_only=True)
class Share:
    """One of several calls that together cost a budget.

    Shares whose fractions sum to 1 compose to the budget: of ``mu^2`` for Gaussian noise, of
    rho for zero-concentrated mechanisms, both of which add.

    Attributes:
        budget: of all calls together.
        fraction: this call's part, in (0, 1].
    """

    budget: Budget
    fraction: float

    def __post_init__(self) -> None:
        if not 0.0 < self.fraction <= 1.0:
            raise ConfigurationError(
                f"fraction is {self.fraction}; a share of a budget lies above 0 and at most at 1"
            )


Allowance = Budget | Share
"""What one call may cost."""


def shared(allowance: Allowance) -> Share:
    """The allowance as a share: a budget is its own whole."""
    return allowance if isinstance(allowance, Share) else Share(budget=allowance, fraction=1.0)


def allowed_mu(allowance: Allowance) -> float:
    """The largest total shift over standard deviation of the call's Gaussian measurements."""
    share = shared(allowance)
    return math.sqrt(share.fraction) * gaussian_mu(share.budget)


def allowed_rho(allowance: Allowance) -> float:
    """The largest total rho of the call's zero-concentrated mechanisms."""
    share = shared(allowance)
    return share.fraction * zcdp_rho(share.budget)


def allowed_selection_epsilon(allowance: Allowance, count: int) -> float:
    """The largest range of each of ``count`` exponential mechanisms.

    For a whole budget the composition itself is calibrated; for a share, zero-concentration,
    by which shares of any sizes compose.

    Args:
        allowance: of all of them together.
        count: how many there are, at least 1.
    """
    share = shared(allowance)
    concentrated = math.sqrt(8.0 * allowed_rho(share) / count)
    if share.fraction < 1.0:
        return concentrated
    return max(_composed_selection_epsilon(share.budget, count), concentrated)


@lru_cache(maxsize=256)
def _composed_selection_epsilon(budget: Budget, count: int) -> float:
    """Calibrated on the composition itself, which takes a second for large counts."""
    return calibrate(lambda epsilon: PrivacyCurve.exponential(epsilon).repeat(count), budget)


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Everything public about a run, fixed before the data are seen.

    Attributes:
        solver: the solver's name.
        problem: what is solved.
        steps: how many rounds measure something.
        step_sizes: of each round; empty where there are none.
        noise_scales: standard deviations (or Gumbel scales) by name, in units of what they
            are added to.
        events: what the run costs, charged as one before the release.
        excess_bound: predicted expected excess risk, an upper bound unless ``settings`` say
            otherwise.
        settings: further public numbers that the release needs, JSON-ready.
    """

    solver: str
    problem: Problem
    steps: int
    step_sizes: tuple[float, ...]
    noise_scales: Mapping[str, float]
    events: tuple[Event, ...]
    excess_bound: float
    settings: Mapping[str, Setting] = field(default_factory=dict[str, Setting])

    def describe(self) -> dict[str, object]:
        """The plan as JSON-ready values, without the problem."""
        return {
            "solver": self.solver,
            "steps": self.steps,
            "noise_scales": dict(self.noise_scales),
            "events": [event.to_json() for event in self.events],
            "excess_bound": self.excess_bound,
            "settings": dict(self.settings),
        }


@dataclass(frozen=True, kw_only=True)
class SolverResult:
    """What a solver publishes.

    Attributes:
        parameters: the model, in the coordinates of ``Problem.design``: a function of the
            measurements and of public numbers.
        measurements: everything that was measured, in order.
        events: what it cost: the plan's.
    """

    parameters: FloatArray
    measurements: tuple[Measurement, ...]
    events: tuple[Event, ...]


@runtime_checkable
class Solver(Protocol):
    """A private batch solver.

    Options are fields of the solver, fixed when it is made; ``plan`` and ``release`` have no
    others.
    """

    @property
    def name(self) -> str:
        """Its name in the catalogue."""
        ...

    def plan(self, problem: Problem, budget: Allowance) -> Plan:
        """Choose steps and noise from public numbers alone.

        Args:
            problem: what to solve.
            budget: what the whole run may cost: a ``Budget``, or a ``Share`` of one where
                several calls compose.

        Raises:
            ConfigurationError: if the solver cannot solve this problem, and why.
            NotPrivate: if no noise of its kind keeps the budget.
        """
        ...

    def release(self, plan: Plan, batch: Batch, noise: Noise) -> SolverResult:
        """Run the plan; the caller has charged its events.

        Noise addresses begin at ``(0,)``: a caller that runs several plans on one stream hands
        each its own ``noise.child(label)``.

        Raises:
            ConfigurationError: if the batch does not fit the problem.
            CertificateError: if an accuracy that privacy rests on was not reached; nothing is
                released then.
        """
        ...
