"""The audit of the moment stack: worst pairs of records by search over their angles."""

import math

import numpy as np

from dpstream.arrays import FloatArray
from dpstream.audit.evidence import Evidence
from dpstream.audit.gaussian import GaussianWorlds, Search, gaussian_evidence
from dpstream.audit.record import Pair, record_pairs
from dpstream.audit.strategy import AUDIT_BUDGET
from dpstream.domain.lattice import ExactVector
from dpstream.domain.moments import MOMENT_EXPONENT, MomentAccumulator
from dpstream.mechanisms.continual.node_noise import NoiseKind
from dpstream.mechanisms.continual.strategy import Participation
from dpstream.mechanisms.continual.sum import ContinualSum
from dpstream.mechanisms.continual.tree import BinaryTree
from dpstream.mechanisms.mechanism import Noise
from dpstream.mechanisms.moments import MomentLayout, MomentWeights, moment_sensitivity
from dpstream.privacy.bounds import curve_of
from dpstream.privacy.calibrate import gaussian_mu
from dpstream.privacy.unit import Neighbours

STACK = MomentLayout(
    dimension=2,
    target_count=1,
    weights=MomentWeights(count=0.5, x=0.5, xx=1.0, y=0.5, xy=1.0, yy=0.3),
)


def stack_of(layout: MomentLayout, pair: Pair) -> tuple[ExactVector, ExactVector]:
    """The measured entries of both records' exact moments."""

    def one(present: bool) -> ExactVector:
        moments = MomentAccumulator(layout.width)
        moments.add(pair.batch(present=present))
        return layout.select(moments.take())

    return one(False), one(True)


def stack_shift(layout: MomentLayout, pair: Pair) -> FloatArray:
    """How a pair shifts the stack, in real units."""
    without, present = (vector.to_float() for vector in stack_of(layout, pair))
    return present - without


def worst_pair(layout: MomentLayout, neighbours: Neighbours) -> tuple[Pair, int, float]:
    """The pair of records with the largest weighted shift, how many were tried, and the shift."""
    pairs = record_pairs(layout.dimension, layout.target_count, neighbours)
    norms = [float(np.linalg.norm(layout.scales * stack_shift(layout, pair))) for pair in pairs]
    best = int(np.argmax(norms))
    return pairs[best], len(pairs), norms[best]


def measure_stack(
    layout: MomentLayout, neighbours: Neighbours, *, shift: float | None = None
) -> ContinualSum:
    """The stack measured once, at the audit's budget.

    Args:
        layout: of the moments.
        neighbours: what a record is hidden against.
        shift: the sensitivity; the layout's own by default.
    """
    own = moment_sensitivity(layout.weights, neighbours)
    return ContinualSum(
        strategy=BinaryTree(1),
        dimension=layout.size,
        increment_exponent=MOMENT_EXPONENT,
        increment_bound=4.0,
        record_shift=own if shift is None else shift,
        participation=Participation(),
        kind=NoiseKind.GAUSSIAN,
        strength=gaussian_mu(AUDIT_BUDGET),
        scales=tuple(layout.scales.tolist()),
    )


def stack_evidence(
    mechanism: ContinualSum, layout: MomentLayout, neighbours: Neighbours, runs: int, noise: Noise
) -> Evidence:
    """Attack a stack that claims the audit's budget for these neighbours."""
    pair, tried, _ = worst_pair(layout, neighbours)
    without, present = stack_of(layout, pair)
    claimed = measure_stack(layout, neighbours)

    def world(name: str, value: ExactVector) -> FloatArray:
        rows = np.empty((runs, layout.size))
        for run in range(runs):
            state = mechanism.init()
            mechanism.absorb(state, value)
            rows[run] = mechanism.release(state, noise.child(f"{name} {run}"))[1]
        return rows

    deviation = claimed.sigma / layout.scales
    mean, moved = without.to_float(), present.to_float()
    separation = float(np.linalg.norm((moved - mean) / deviation))
    return gaussian_evidence(
        GaussianWorlds(
            without=world("without", without),
            present=world("present", present),
            mean=mean,
            shift=moved - mean,
            deviation=deviation,
        ),
        claim=curve_of(claimed.event()),
        claimed_mu=claimed.strength,
        delta=AUDIT_BUDGET.delta,
        search=Search(worst=pair.words, tried=tried, separation=separation),
        pooled=True,
    )


def moment_evidence(runs: int, noise: Noise) -> Evidence:
    """The stack under ``replace``, whose worst pair is no obvious one."""
    mechanism = measure_stack(STACK, Neighbours.REPLACE)
    return stack_evidence(mechanism, STACK, Neighbours.REPLACE, math.ceil(runs / 8), noise)
