"""WDP-COCOP: follow the approximate leader with projections, under delayed publication.

Paper 002, Algorithm 1, on strongly convex losses over a bounded set: ``FollowTheLeader`` with an
expiring sum, its regulariser exact, and nothing measured but gradients. Its proof is that
learner's (``follow_the_leader.proof.md``), which says what of the printed algorithm was changed.
"""

from dpstream.domain.domain import Domain
from dpstream.geometry.convex_set import ConvexSet
from dpstream.geometry.declaration import require_positive
from dpstream.learners.online.follow_the_leader import FollowTheLeader
from dpstream.learners.online.gradient_stack import StackLoss
from dpstream.learners.online.leader import Update
from dpstream.mechanisms.continual.choice import sum_strategy
from dpstream.mechanisms.continual.node_noise import NoiseKind, NoiseName
from dpstream.privacy.budget import Budget
from dpstream.privacy.unit import Neighbours, Unit


def wdp_cocop(
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
    update: Update = "projection",
    oracle_count: int = 8,
) -> FollowTheLeader:
    """The learner of Algorithm 1.

    Guaranteed: for every tick t, what was published up to t satisfies the budget for records
    that are less than ``window`` ticks old at t. A record's gradient is published exactly after
    that: delayed publication, which every release states.

    Args:
        domain: what of a record counts.
        budget: of everything published about live records.
        unit: whose contribution is hidden while it is live.
        neighbours: what it is hidden against.
        loss: of a record, without the regulariser.
        window: ticks for which a record is protected (the paper's W).
        modulus: of the regulariser ``(modulus / 2) |theta|^2`` per record (the paper's mu).
        convex_set: of the parameters.
        noise: Gaussian, or spherical Laplace: the paper's Gamma mechanism, with delta 0.
        strategy: ``"window_tree"`` is the paper's; ``"expiring_toeplitz"`` has less noise.
        slope_clip: bound to which slopes are clipped; None takes the loss's own on the set.
        update: how the leader is found.
        oracle_count: oracle calls per release, for linear-oracle updates.
    """
    require_positive(
        "modulus",
        modulus,
        otherwise="the algorithm needs strong convexity; for losses without it take "
        "FollowTheLeader with an expiring strategy",
    )
    return FollowTheLeader(
        domain=domain,
        budget=budget,
        unit=unit,
        neighbours=neighbours,
        horizon=None,
        loss=loss,
        strategy=sum_strategy(strategy, horizon=None, window=window, decay=None),
        curvature="none",
        ridge=modulus,
        convex_set=convex_set,
        update=update,
        slope_clip=slope_clip,
        prior_scale=float("inf"),
        # One scale for all coordinates, as the Gamma mechanism needs.
        constant_scale=1.0,
        loss_weight=0.0,
        oracle_count=oracle_count,
        noise=noise,
    )
