"""How good a private linear model will be, before any data: noise simulated on made-up records.

The real noise law, the real solver and the learner's own calibration are used; only the records
are made up: columns independent and even over their public bounds, a target whose standard
deviation is a quarter of its interval's length, half of its variance explained by the features.
Correlated features, or features that fill little of their bounds, make a worse model than this.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpstream.arrays import FloatArray
from dpstream.domain.domain import Domain
from dpstream.domain.moments import packed_positions
from dpstream.geometry.convex_set import Projectable
from dpstream.learners.incremental.priv_inc_reg1 import PrivIncReg1
from dpstream.mechanisms.public import PublicGenerator, public_generator
from dpstream.solvers.synthetic import synthetic_columns

SAMPLE = 4096
TARGET_SPREAD = 0.5
"""Standard deviation of a target in units of half its interval."""

EXPLAINED = 0.5
"""Part of the target's variance that the best model explains."""


@dataclass(frozen=True, kw_only=True)
class Forecast:
    """What is expected of the first target's model at one tick, in the user's units.

    Attributes:
        tick: the tick.
        records: records by then.
        best_error: root mean square error of the best linear model.
        expected_error: of the private model, mean over draws of the noise.
        constant_error: of the best constant.
    """

    tick: int
    records: int
    best_error: float
    expected_error: float
    constant_error: float


def forecast(
    learner: PrivIncReg1, ticks: Sequence[tuple[int, int]], *, draws: int = 8, seed: int = 0
) -> list[Forecast]:
    """Simulate the learner's releases at ``(tick, records)`` on made-up records.

    Args:
        learner: the calibrated learner.
        ticks: which releases, each with the number of records by then.
        draws: of the noise, and of the true coefficients.
        seed: of the simulation.
    """
    generator = public_generator(seed)
    features = _features(learner.domain, generator)
    design = features.T @ features / len(features)
    variance = (TARGET_SPREAD**2) / learner.domain.target_count
    found: list[Forecast] = []
    for tick, records in ticks:
        excess = 0.0
        for _ in range(draws):
            truth = _truth(learner, design, EXPLAINED * variance, generator)
            moments = _moments(learner, design, truth, variance, records)
            sigma = math.sqrt(learner.unit_variance(tick))
            noise = generator.standard_normal(moments.size) * sigma / learner.layout.scales
            model = learner.problem.model(
                moments + noise,
                unit_variance=learner.unit_variance(tick),
                records=records,
                shrink=learner.shrink,
                intervals=False,
            )
            gap = _parameters(learner, model["targets"][0]) - truth
            excess += float(gap @ design @ gap) / draws
        residual = (1.0 - EXPLAINED) * variance
        scale = 1.0 / float(learner.domain.target_map.scale[0])
        found.append(
            Forecast(
                tick=tick,
                records=records,
                best_error=scale * math.sqrt(residual),
                expected_error=scale * math.sqrt(residual + excess),
                constant_error=scale * math.sqrt(variance),
            )
        )
    return found


def _features(domain: Domain, generator: PublicGenerator) -> FloatArray:
    """Admitted made-up records, as rows ``(1, x)`` in scaled units."""
    columns = synthetic_columns(domain, SAMPLE, generator)
    bare = Domain(
        domain.columns,
        intercept=domain.intercept,
        record_bound=domain.record_bound,
        norm_bound=domain.norm_bound,
    )
    batch = bare.admit(columns)
    return np.column_stack([np.ones(len(batch)), batch.scaled_features])


def _truth(
    learner: PrivIncReg1, design: FloatArray, signal: float, generator: PublicGenerator
) -> FloatArray:
    """Random coefficients ``(0, theta)`` whose predictions have the variance ``signal``.

    Drawn in the coordinates in which the features are uncorrelated, so that no direction is
    favoured; a radius, if there is one, caps them.
    """
    mean = design[0, 1:]
    values, vectors = np.linalg.eigh(design[1:, 1:] - np.outer(mean, mean))
    usable = values > 1e-9 * values[-1]
    weights = generator.standard_normal(values.size) * usable
    weights *= math.sqrt(signal) / np.linalg.norm(weights)
    theta = vectors @ (weights / np.sqrt(np.where(usable, values, 1.0)))
    if learner.radius is not None:
        theta *= min(1.0, learner.radius / float(np.linalg.norm(theta)))
    if learner.constraint is not None and not learner.constraint.contains(theta):
        chosen = learner.constraint
        theta = chosen.project(theta) if isinstance(chosen, Projectable) else chosen.centre()
    offset = -float(mean @ theta) if learner.domain.intercept else 0.0
    return np.concatenate([[offset], theta])


def _moments(
    learner: PrivIncReg1, design: FloatArray, truth: FloatArray, variance: float, records: int
) -> FloatArray:
    """The measured entries of the expected moments of ``records`` made-up records."""
    width, first = learner.layout.width, design.shape[0]
    full = np.zeros((width, width))
    full[:first, :first] = design
    full[:first, first] = full[first, :first] = design @ truth
    full[first, first] = variance
    rows, columns = packed_positions(width)
    return records * full[rows, columns][learner.layout.positions]


def _parameters(learner: PrivIncReg1, target: Mapping[str, Any]) -> FloatArray:
    """The model's scaled parameters, intercept first (0 if it has none)."""
    slopes = np.array(target["coefficients"]["estimate"], np.float64)
    head = target["intercept"]["estimate"] if learner.domain.intercept else 0.0
    return np.concatenate([[head], slopes])
