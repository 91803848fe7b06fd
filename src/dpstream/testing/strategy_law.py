"""Laws that every strategy of a continual sum obeys, checked on its explicit matrices.

A strategy's encoder and decoder are linear and treat coordinates alike, so feeding unit vectors
shows the matrices ``C`` and ``B`` themselves. Everything a strategy claims in closed form
(sensitivity, variance, covariance, rounding reach, memory) is then compared with what the
matrices say, and nothing is taken from the strategy's own formulas.

Each ``check_*`` raises ``AssertionError`` with the first claim that does not hold.
"""

from collections.abc import Iterable, Sequence
from itertools import combinations_with_replacement

import numpy as np

from dpstream.arrays import FloatArray, IntArray
from dpstream.audit.explicit import (
    INCREMENT_EXPONENT,
    NODE_EXPONENT,
    ExplicitStrategy,
    explicit,
    run_encoder,
    worst_shift,
)
from dpstream.domain.lattice import ExactVector
from dpstream.mechanisms.continual.strategy import (
    Address,
    Participation,
    Promise,
    Strategy,
)


def prefix_target(ticks: int) -> FloatArray:
    """The matrix of running sums."""
    return np.tril(np.ones((ticks, ticks)))


def window_target(ticks: int, window: int) -> FloatArray:
    """The matrix of sums over the last ``window`` ticks."""
    return np.tril(np.ones((ticks, ticks))) - np.tril(np.ones((ticks, ticks)), -window)


def decay_target(ticks: int, decay: float) -> FloatArray:
    """The matrix of exponentially discounted sums."""
    age = np.arange(ticks)[:, None] - np.arange(ticks)[None, :]
    return np.where(age >= 0, decay ** np.maximum(age, 0), 0.0)


def check_factorisation(
    strategy: Strategy, target: FloatArray, *, tolerance: float = 1e-9
) -> ExplicitStrategy:
    """With zero noise the released sum is right at every tick: ``B C = A``."""
    matrices = explicit(strategy, target.shape[0])
    error = np.abs(matrices.decoding @ matrices.code - target).max()
    assert error <= tolerance, f"{strategy.name}: B C differs from A by {error}"
    if strategy.promise is Promise.FOREVER:
        assert np.all(matrices.weights > 0), f"{strategy.name}: a node is released without noise"
    return matrices


def check_expiry(
    strategy: Strategy,
    ticks: int,
    participation: Participation,
    *,
    window: int,
    order: int = 2,
    attained: float = 1.0 - 1e-9,
) -> float:
    """A record is protected until it is ``window`` ticks old, whatever was released by then.

    Up to every tick, no exact sum holds a live record, and the shift of all noisy nodes handed
    out so far by one unit's live records stays within the claim.

    Returns:
        The share of the claim that the search reached.
    """
    matrices = explicit(strategy, ticks)
    claim = strategy.sensitivity(participation, order=order)
    noisy = matrices.weights > 0
    worst = 0.0
    for tick in range(1, ticks + 1):
        seen = matrices.handed <= tick
        live = slice(max(tick - window, 0), tick)
        exact = matrices.code[seen & ~noisy, live]
        assert not exact.any(), f"{strategy.name}: a live record is exact at tick {tick}"
        code = matrices.scaled_code[seen[noisy], live]
        worst = max(worst, worst_shift(code, participation, order=order))
    assert worst <= claim * (1 + 1e-9), f"{strategy.name}: live records shift {worst} > {claim}"
    assert worst >= claim * attained, f"{strategy.name}: {claim} is loose: found {worst}"
    return worst / claim


def check_lazy_release(strategy: Strategy, ticks: int, patterns: Iterable[Sequence[int]]) -> None:
    """Which ticks are released changes neither a node's value nor an estimate."""
    eager = explicit(strategy, ticks)
    place = {address: index for index, address in enumerate(eager.addresses)}
    for pattern in patterns:
        lazy = explicit(strategy, ticks, released=pattern)
        index = [place[address] for address in lazy.addresses]
        assert np.array_equal(lazy.code, eager.code[index]), f"{strategy.name}: {pattern}: values"
        assert np.array_equal(lazy.weights, eager.weights[index]), f"{strategy.name}: weights"
        spread = np.zeros_like(eager.decoding)
        spread[:, index] = lazy.decoding
        rows = [tick - 1 for tick in pattern]
        assert np.array_equal(spread[rows], eager.decoding[rows]), (
            f"{strategy.name}: {pattern}: the estimate depends on earlier releases"
        )


def check_resume(strategy: Strategy, increments: IntArray, *, node_exponent: int = -24) -> None:
    """Snapshot and restore after every tick equals the uninterrupted run, to the bit."""
    ticks, dimension = increments.shape

    def play(*, interrupt: bool) -> list[tuple[int, Address, bytes, float, bytes]]:
        lattices = {"increment_exponent": INCREMENT_EXPONENT, "node_exponent": node_exponent}
        encoder = strategy.encoder(dimension, **lattices)
        decoder = strategy.decoder(dimension)
        history: list[tuple[int, Address, bytes, float, bytes]] = []
        for tick in range(1, ticks + 1):
            encoder.absorb(ExactVector.from_integers(increments[tick - 1], INCREMENT_EXPONENT))
            if interrupt:
                kept = {key: value.copy() for key, value in encoder.snapshot().items()}
                encoder = strategy.encoder(dimension, **lattices)
                encoder.restore(kept)
            if tick % 3 == 0:
                continue
            for node in encoder.nodes():
                noisy = np.ldexp(node.value.astype(np.float64), node.exponent) + 0.1 * tick
                decoder.observe(node.address, noisy)
                history.append((tick, node.address, node.value.tobytes(), node.weight, b""))
            if interrupt:
                kept = {key: value.copy() for key, value in encoder.snapshot().items()}
                encoder = strategy.encoder(dimension, **lattices)
                encoder.restore(kept)
                shown = {key: value.copy() for key, value in decoder.snapshot().items()}
                decoder = strategy.decoder(dimension)
                decoder.restore(shown)
            history.append((tick, (), b"", 0.0, decoder.estimate(tick).tobytes()))
        return history

    assert play(interrupt=False) == play(interrupt=True), f"{strategy.name}: resume differs"


def check_sensitivity(
    strategy: Strategy,
    ticks: int,
    participation: Participation,
    *,
    order: int = 2,
    attained: float = 1.0 - 1e-9,
) -> float:
    """The claimed sensitivity bounds every unit's shift, and is not loose.

    Args:
        strategy: the strategy; its horizon, if any, should be ``ticks``.
        ticks: how many ticks to search over.
        participation: how often one unit may contribute.
        order: 2 for Gaussian noise, 1 for pure noise.
        attained: the share of the claim that the search must reach.

    Returns:
        The share reached.
    """
    worst = worst_shift(explicit(strategy, ticks).scaled_code, participation, order=order)
    claim = strategy.sensitivity(participation, order=order)
    assert worst <= claim * (1 + 1e-9), (
        f"{strategy.name}: a unit with {participation} shifts the code by {worst} > {claim}"
    )
    assert worst >= claim * attained, (
        f"{strategy.name}: the claim {claim} for {participation} is loose: found only {worst}"
    )
    return worst / claim


def check_moments(strategy: Strategy, ticks: int, *, tolerance: float = 1e-9) -> None:
    """The variance and covariance formulas equal those of the matrices, at all ticks."""
    actual = explicit(strategy, ticks).covariance
    for later in range(1, ticks + 1):
        variance = strategy.variance(later)
        scale = max(1.0, variance)
        assert abs(variance - actual[later - 1, later - 1]) <= tolerance * scale, (
            f"{strategy.name}: variance({later}) is {variance}, not {actual[later - 1, later - 1]}"
        )
        for earlier in range(1, later + 1):
            claim = strategy.covariance(earlier, later)
            assert abs(claim - actual[earlier - 1, later - 1]) <= tolerance * scale, (
                f"{strategy.name}: covariance({earlier}, {later}) is {claim}, "
                f"not {actual[earlier - 1, later - 1]}"
            )


def check_rounding_norm(
    strategy: Strategy,
    ticks: int,
    participation: Participation,
    *,
    orders: Sequence[int] = (1, 2),
) -> None:
    """The claimed reach of rounding covers every node a unit touches."""
    matrices = explicit(strategy, ticks)
    reach = (matrices.scaled_code != 0).astype(np.float64)
    inverse = 1.0 / matrices.weights[matrices.weights > 0]
    for order in orders:
        claim = strategy.rounding_norm(participation, order=order)
        for chosen in combinations_with_replacement(range(ticks), participation.cap):
            touched = reach[:, chosen].max(axis=1) * inverse
            norm = np.linalg.norm(touched) if order == 2 else touched.sum()
            assert norm <= claim * (1 + 1e-9), (
                f"{strategy.name}: rounding of order {order} reaches {norm} > {claim}"
            )


def check_node_error(
    strategy: Strategy, increments: IntArray, *, node_exponent: int, increment_bound: float
) -> float:
    """Nodes differ from the exact code by no more than claimed.

    The exact code is taken from the matrices at the fine lattice ``2**-40``, whose own error is
    allowed for.

    Returns:
        The largest error seen over the claimed one (0 where both are zero).
    """
    claim = strategy.node_error(
        increment_bound=increment_bound,
        increment_exponent=INCREMENT_EXPONENT,
        node_exponent=node_exponent,
    )
    matrices = explicit(strategy, increments.shape[0])
    real = np.ldexp(increments.astype(np.float64), INCREMENT_EXPONENT)
    assert np.abs(real).max() <= increment_bound, "the test's increments exceed their bound"
    exact = matrices.code @ real
    slack = np.ldexp(1.0, NODE_EXPONENT) * increment_bound * increments.shape[0]
    handed = run_encoder(strategy, increments, node_exponent=node_exponent)
    worst = 0.0
    for (_, node), row in zip(handed, exact, strict=True):
        error = np.abs(np.ldexp(node.value.astype(np.float64), node.exponent) - row).max()
        worst = max(worst, float(error))
    assert worst <= claim + slack, f"{strategy.name}: a node is off by {worst} > {claim}"
    return worst / claim if claim > 0 else 0.0


def check_code_bound(strategy: Strategy, ticks: int) -> None:
    """No noisy node sums more than ``code_bound()`` of the increments' bound."""
    matrices = explicit(strategy, ticks)
    noisy = matrices.weights > 0
    largest = np.abs(matrices.code[noisy]).sum(axis=1).max()
    assert largest <= strategy.code_bound() * (1 + 1e-9), (
        f"{strategy.name}: a node sums {largest} > {strategy.code_bound()}"
    )


def check_memory(strategy: Strategy, ticks: int, *, dimension: int = 1009) -> None:
    """The encoder's snapshot holds no more vectors than ``memory`` says, at every tick."""
    encoder = strategy.encoder(
        dimension, increment_exponent=INCREMENT_EXPONENT, node_exponent=NODE_EXPONENT
    )
    one = ExactVector.from_integers(np.ones(dimension, np.int64), INCREMENT_EXPONENT)
    for tick in range(1, ticks + 1):
        encoder.absorb(one)
        encoder.nodes()
        # An exact vector has two limbs; what is smaller than a vector is bookkeeping.
        held = sum(
            array.size for array in encoder.snapshot().values() if array.size % dimension == 0
        )
        claim = strategy.memory(tick)
        assert held <= 2 * dimension * claim, (
            f"{strategy.name}: {held / (2 * dimension)} vectors held at tick {tick}, not {claim}"
        )
