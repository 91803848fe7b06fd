"""WDP-COCOL: follow the approximate leader with a linear oracle, under delayed publication.

Paper 002, Algorithm 2: no projection, but a few calls of the set's local linear oracle (the
global one where the set has no local one) per release. Oracle calls cost no privacy. Its proof is
``follow_the_leader.proof.md``.
"""

from dpstream.domain.domain import Domain
from dpstream.geometry.convex_set import ConvexSet
from dpstream.learners.online.follow_the_leader import FollowTheLeader
from dpstream.learners.online.gradient_stack import StackLoss
from dpstream.learners.online.wdp_cocop import wdp_cocop
from dpstream.mechanisms.continual.node_noise import NoiseKind, NoiseName
from dpstream.privacy.budget import Budget
from dpstream.privacy.unit import Neighbours, Unit


def wdp_cocol(
    *,
    domain: Domain,
    budget: Budget,
    unit: Unit,
    neighbours: Neighbours,
    loss: StackLoss,
    window: int,
    modulus: float,
    convex_set: ConvexSet,
    noise: NoiseKind | NoiseName = NoiseKind.GAUSSIAN,
    strategy: str = "window_tree",
    slope_clip: float | None = None,
    oracle_count: int = 8,
) -> FollowTheLeader:
    """The learner of Algorithm 2; arguments and promise as for ``wdp_cocop``."""
    return wdp_cocop(
        domain=domain,
        budget=budget,
        unit=unit,
        neighbours=neighbours,
        loss=loss,
        window=window,
        modulus=modulus,
        convex_set=convex_set,
        noise=noise,
        strategy=strategy,
        slope_clip=slope_clip,
        update="linear_oracle",
        oracle_count=oracle_count,
    )
