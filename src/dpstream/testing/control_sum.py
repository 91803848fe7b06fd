"""Negative controls: continual sums and their strategies."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from dpstream.arrays import FloatArray, IntArray
from dpstream.audit.finding import Finding
from dpstream.audit.sum import Neighbours, attack_sum, scalar_sum, search_neighbours
from dpstream.domain.lattice import ExactVector
from dpstream.mechanisms.continual.blt import buffered_toeplitz, standard_filter
from dpstream.mechanisms.continual.chain import ToeplitzChain
from dpstream.mechanisms.continual.strategy import (
    Address,
    Decoder,
    Encoder,
    Node,
    Participation,
    Strategy,
)
from dpstream.mechanisms.continual.sum import ContinualSum, SumState
from dpstream.mechanisms.continual.tree import BinaryTree
from dpstream.mechanisms.continual.window_tree import WindowTree, WindowTreeEncoder
from dpstream.mechanisms.mechanism import Noise
from dpstream.mechanisms.public import public_generator
from dpstream.privacy.budget import Budget
from dpstream.privacy.calibrate import gaussian_mu
from dpstream.release import Measurement
from dpstream.testing.control import Attack, Control

RUNS = 6000
FINE_RUNS = 24_000
TICKS = 8
WINDOW = 4
BUDGET = Budget(epsilon=8.0, delta=1e-6)
MU = gaussian_mu(BUDGET)


def against(
    broken: ContinualSum,
    sound: ContinualSum,
    *,
    ticks: int = TICKS,
    window: int | None = None,
    record_size: int = 1,
) -> Attack:
    """The audit of a sum that claims to be the sound one."""
    neighbours = search_neighbours(
        sound.strategy, ticks=ticks, window=window, participation=sound.participation
    )

    def attack(seed: int, broken_one: bool) -> Sequence[Finding]:
        return _attacked(broken if broken_one else sound, sound, neighbours, record_size, seed)

    return attack


def _attacked(
    mechanism: ContinualSum, claimed: ContinualSum, neighbours: Neighbours, size: int, seed: int
) -> Sequence[Finding]:
    noise = Noise.insecure(seed)
    return attack_sum(
        mechanism, claimed, neighbours, record_size=size, noise=noise, delta=BUDGET.delta
    ).findings


def _tree(runs: int = RUNS, *, model: type[ContinualSum] = ContinualSum) -> ContinualSum:
    return scalar_sum(BinaryTree(TICKS), runs=runs, strength=MU, model=model)


def _blt(runs: int = RUNS, *, model: type[ContinualSum] = ContinualSum) -> ContinualSum:
    return scalar_sum(buffered_toeplitz(horizon=TICKS), runs=runs, strength=MU, model=model)


@dataclass(frozen=True, kw_only=True)
class Scaled(ContinualSum):
    """Its noise is off by a factor."""

    factor: float = 0.5

    def _measure(self, node: Node, noise: Noise) -> Measurement:
        return super()._measure(replace(node, weight=node.weight * self.factor), noise)


@dataclass(frozen=True, kw_only=True)
class Bare(ContinualSum):
    """One node, of the ticks 1 to 8, has hardly any noise."""

    def _measure(self, node: Node, noise: Noise) -> Measurement:
        weight = 2.0**-10 if node.address == (3, 1) else node.weight
        return super()._measure(replace(node, weight=weight), noise)


class Overheard:
    """An encoder that repeats itself, or tells the decoder what it knows."""

    def __init__(self, encoder: Encoder, *, repeat: bool = False) -> None:
        self._encoder = encoder
        self._repeat = repeat
        self.kept: list[Node] = []

    def absorb(self, increment: ExactVector) -> None:
        """Close one tick."""
        self._encoder.absorb(increment)

    def nodes(self) -> Sequence[Node]:
        """New nodes, or all so far."""
        fresh = list(self._encoder.nodes())
        self.kept += fresh
        return list(self.kept) if self._repeat else fresh

    def snapshot(self) -> dict[str, FloatArray | IntArray]:
        """The encoder's."""
        return self._encoder.snapshot()

    def restore(self, arrays: dict[str, FloatArray | IntArray]) -> None:
        """The encoder's."""
        self._encoder.restore(arrays)


@dataclass(frozen=True, kw_only=True)
class Redrawn(ContinualSum):
    """Draws the noise of every node again for every release."""

    def init(self) -> SumState:
        """With an encoder that hands out all nodes at every release."""
        state = super().init()
        return SumState(encoder=Overheard(state.encoder, repeat=True), decoder=state.decoder)

    def release(self, state: SumState, noise: Noise) -> tuple[list[Measurement], FloatArray]:
        """Forget what was measured and measure it anew."""
        state.decoder = self.strategy.decoder(self.dimension)
        return super().release(state, noise.child(f"release {state.tick}"))


@dataclass(frozen=True, kw_only=True)
class Telling(ContinualSum):
    """Measures with noise, and publishes the exact sum from the encoder's state."""

    def init(self) -> SumState:
        """With an encoder that can be overheard."""
        state = super().init()
        return SumState(encoder=Overheard(state.encoder), decoder=state.decoder)

    def release(self, state: SumState, noise: Noise) -> tuple[list[Measurement], FloatArray]:
        """Decode the exact nodes."""
        measured, _ = super().release(state, noise)
        decoder = self.strategy.decoder(self.dimension)
        assert isinstance(state.encoder, Overheard)
        for node in state.encoder.kept:
            decoder.observe(node.address, np.ldexp(node.value.astype(float), node.exponent))
        return measured, decoder.estimate(state.tick)


@dataclass(frozen=True, kw_only=True)
class Placeless(ContinualSum):
    """Noise is bound to the value, but not to the node's address."""

    def _measure(self, node: Node, noise: Noise) -> Measurement:
        measured = super()._measure(replace(node, address=(0, 0)), noise)
        return replace(measured, address=node.address)


@dataclass(frozen=True, kw_only=True)
class Uniform(ContinualSum):
    """Noise of the right variance and the wrong law."""

    def _measure(self, node: Node, noise: Noise) -> Measurement:
        draws = _public_draws(node, noise).uniform(-math.sqrt(3.0), math.sqrt(3.0), node.value.size)
        return _added(self, node, draws)


@dataclass(frozen=True, kw_only=True)
class Broadcast(ContinualSum):
    """One draw for all coordinates of a node."""

    def _measure(self, node: Node, noise: Noise) -> Measurement:
        draws = np.full(node.value.size, _public_draws(node, noise).normal())
        return _added(self, node, draws)


def _public_draws(node: Node, noise: Noise) -> Any:
    return public_generator(int(noise.words(node.address, noise.bind(node.value), 1)[0] >> 16))


def _added(mechanism: ContinualSum, node: Node, draws: FloatArray) -> Measurement:
    steps = math.ldexp(mechanism.sigma * node.weight, -node.exponent)
    value = node.value + np.rint(steps * draws).astype(np.int64)
    return Measurement(address=node.address, exponent=node.exponent, value=value)


class RefreshedEncoder(WindowTreeEncoder):
    """Measures what is left of a node again whenever some of it expires."""

    def nodes(self) -> Sequence[Node]:
        """The window tree's nodes, and the live rest of every partly expired one."""
        start, tick = self._start, self._tick
        handed = list(super().nodes())
        for level in range(1, self._strategy.top + 1):
            first = start >> level << level
            end = first + (1 << level)
            if first < start < end <= tick:
                left = self._sums[end - start].copy()
                left.subtract(self._sums[0])
                handed.append(self._node((100 + level, start), left, 1.0))
        return handed


@dataclass(frozen=True)
class RefreshedWindowTree(WindowTree):
    """Refreshes nodes that hold expired and live records."""

    def encoder(
        self, dimension: int, *, increment_exponent: int, node_exponent: int
    ) -> WindowTreeEncoder:
        """An encoder that refreshes."""
        return RefreshedEncoder(self, dimension, increment_exponent, node_exponent)


class DoubledEncoder:
    """Two chains over the same ticks, the second half an epoch late."""

    def __init__(self, first: Encoder, second: Encoder, delay: int) -> None:
        self._first, self._second, self._delay = first, second, delay

    def absorb(self, increment: ExactVector) -> None:
        """Both take the tick, the second after its delay."""
        self._first.absorb(increment)
        if self._delay:
            self._delay -= 1
        else:
            self._second.absorb(increment)

    def nodes(self) -> Sequence[Node]:
        """Both chains' nodes."""
        late = [replace(each, address=(9, *each.address)) for each in self._second.nodes()]
        return [*self._first.nodes(), *late]

    def snapshot(self) -> dict[str, FloatArray | IntArray]:
        """The first chain's."""
        return self._first.snapshot()

    def restore(self, arrays: dict[str, FloatArray | IntArray]) -> None:
        """The first chain's."""
        self._first.restore(arrays)


class DeafDecoder:
    """Takes the first chain's nodes alone."""

    def __init__(self, decoder: Decoder) -> None:
        self._decoder = decoder

    def observe(self, address: Address, value: FloatArray) -> None:
        """Leave out the second chain."""
        if len(address) == 2:
            self._decoder.observe(address, value)

    def estimate(self, tick: int) -> FloatArray:
        """The first chain's sum."""
        return self._decoder.estimate(tick)

    def snapshot(self) -> dict[str, FloatArray | IntArray]:
        """The first chain's."""
        return self._decoder.snapshot()

    def restore(self, arrays: dict[str, FloatArray | IntArray]) -> None:
        """The first chain's."""
        self._decoder.restore(arrays)


@dataclass(frozen=True, kw_only=True)
class OverlappingChain(ToeplitzChain):
    """Epochs that overlap by half, each with the whole budget."""

    overlap: int = field(default=2)

    def encoder(self, dimension: int, *, increment_exponent: int, node_exponent: int) -> Any:
        """Both chains."""
        lattices = {"increment_exponent": increment_exponent, "node_exponent": node_exponent}
        first, second = (super(OverlappingChain, self).encoder(dimension, **lattices) for _ in "ab")
        return DoubledEncoder(first, second, self.overlap)

    def decoder(self, dimension: int) -> Any:
        """The first chain's."""
        return DeafDecoder(super().decoder(dimension))


def _sum(strategy: Strategy, *, strength: float = MU, **options: Any) -> ContinualSum:
    return scalar_sum(strategy, runs=RUNS, strength=strength, **options)


def _epochs() -> tuple[tuple[int, tuple[float, ...], tuple[float, ...]], ...]:
    response = standard_filter(WINDOW)
    return ((WINDOW, response.rates, response.scales),)


def _printed_tree() -> Attack:
    """Paper 000's TreeMech at T = 2 and (1, 1e-6): a budget of log2 T = 1 node, where 2 count."""
    budget = Budget(epsilon=1.0, delta=1e-6)
    printed = math.log2(2.0) * math.sqrt(2.0 * math.log(2.0 / budget.delta)) / budget.epsilon
    tree = BinaryTree(2)
    sound = scalar_sum(tree, runs=FINE_RUNS, strength=gaussian_mu(budget))
    broken = scalar_sum(tree, runs=FINE_RUNS, strength=math.sqrt(2.0) / printed)
    return against(broken, sound, ticks=2)


def sum_controls() -> tuple[Control, ...]:
    """Faults of continual sums."""
    levels = TICKS.bit_length()
    one_less = _sum(BinaryTree(TICKS), strength=MU * math.sqrt(levels / (levels - 1)))
    cap = Participation(cap=3, per_tick=1)

    def control(name: str, fault: str, attack: Attack) -> Control:
        return Control(name=name, fault=fault, attack=attack)

    live = {"ticks": 3 * WINDOW, "window": WINDOW}
    # Windows of 4 and 5 ticks have nodes of the same levels.
    early, due = WindowTree(WINDOW), WindowTree(WINDOW + 1)
    return (
        control("BinaryTree", "half the noise", against(_tree(model=Scaled), _tree())),
        control(
            "BufferedToeplitz",
            "twice the noise",
            against(_sum(buffered_toeplitz(horizon=TICKS), strength=MU / 2), _blt()),
        ),
        control(
            "BufferedToeplitz",
            "noise 5 % too small",
            against(
                scalar_sum(buffered_toeplitz(horizon=TICKS), runs=FINE_RUNS, strength=MU / 0.95),
                _blt(FINE_RUNS),
            ),
        ),
        control(
            "BinaryTree",
            "noise drawn again at every release",
            against(_tree(model=Redrawn), _tree()),
        ),
        control(
            "BufferedToeplitz",
            "noise drawn again at every release",
            against(_blt(model=Redrawn), _blt()),
        ),
        control("BinaryTree", "one node without noise", against(_tree(model=Bare), _tree())),
        control(
            "BufferedToeplitz",
            "zero_out noise under replace",
            against(
                _blt(),
                _sum(buffered_toeplitz(horizon=TICKS), record_shift=2.0),
                record_size=2,
            ),
        ),
        control(
            "BinaryTree",
            "noise for one node too few (k - 1)",
            against(one_less, _tree()),
        ),
        control(
            "BinaryTree at T = 2", "printed noise of paper 000 (log2 T nodes)", _printed_tree()
        ),
        control(
            "BufferedToeplitz",
            "the unit's cap is not enforced",
            against(_blt(), _sum(buffered_toeplitz(horizon=TICKS), participation=cap)),
        ),
        control(
            "BufferedToeplitz",
            "the decoder publishes the encoder's exact state",
            against(_blt(model=Telling), _blt()),
        ),
        control(
            "BinaryTree",
            "noise bound to the value, not to the address",
            against(_tree(model=Placeless), _tree()),
        ),
        control(
            "BinaryTree", "uniform noise of equal variance", against(_tree(model=Uniform), _tree())
        ),
        control(
            "BinaryTree",
            "one draw for all coordinates",
            against(_tree(model=Broadcast), _tree()),
        ),
        control(
            "WindowTree",
            "partly expired nodes are refreshed",
            against(_sum(RefreshedWindowTree(WINDOW)), _sum(WindowTree(WINDOW)), **live),
        ),
        control(
            "WindowTree",
            "exact sums are released a tick before their records expire",
            against(_sum(early), _sum(due), ticks=3 * WINDOW, window=WINDOW + 1),
        ),
        control(
            "ToeplitzChain",
            "epochs overlap, each with the whole budget",
            against(
                _sum(OverlappingChain(epochs=_epochs())),
                _sum(ToeplitzChain(epochs=_epochs())),
                ticks=3 * WINDOW,
            ),
        ),
    )
