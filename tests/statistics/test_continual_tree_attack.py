"""Attacks on the tree strategies' releases, with mechanisms broken on purpose.

One run of a mechanism over a vector of equal coordinates is as many independent runs of a scalar
one: coordinates have independent noise. Seeds are fixed; limits leave an honest mechanism a
false alarm of FALSE_ALARM per attack.
"""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from sum_attack import FALSE_ALARM, MU, ONE, RUNS, TICKS, Rescaled, mechanism_of, sum_attack

from dpstream.domain.lattice import ExactVector
from dpstream.mechanisms.continual.honaker import HonakerTree
from dpstream.mechanisms.continual.hybrid import Hybrid
from dpstream.mechanisms.continual.node_noise import NoiseKind
from dpstream.mechanisms.continual.strategy import Node, Participation, Strategy
from dpstream.mechanisms.continual.sum import ContinualSum, SumState
from dpstream.mechanisms.continual.tree import BinaryTree
from dpstream.mechanisms.continual.window_tree import (
    EXPIRED,
    WindowTree,
)
from dpstream.mechanisms.mechanism import Noise
from dpstream.release import Measurement
from dpstream.testing.attack import (
    failures,
    separation_finding,
    spherical_attack,
)
from dpstream.testing.control_sum import RefreshedWindowTree
from dpstream.testing.strategy_law import check_expiry


def attack(broken: ContinualSum, honest: ContinualSum, record: int) -> dict[str, list[str]]:
    """What each attack finds wrong with a running sum that claims to be the honest one."""
    return sum_attack(broken, honest, np.arange(1, TICKS + 1) >= record, record)


class Louder(Rescaled):
    """Twice the noise that it claims."""

    factor = 2.0


class Quieter(Rescaled):
    """Half the noise that it claims."""

    factor = 0.5


@dataclass(frozen=True, kw_only=True)
class Bare(ContinualSum):
    """One node, of the ticks 1 to 8 or, in the hybrid's epochs, 5 to 8, has hardly any noise."""

    def _measure(self, node: Node, noise: Noise) -> Measurement:
        weight = 2.0**-10 if node.address in {(3, 1), (2, 2)} else node.weight
        return super()._measure(replace(node, weight=weight), noise)


@dataclass(frozen=True, kw_only=True)
class Redrawn(ContinualSum):
    """Draws the noise of every node again for every release."""

    def init(self) -> SumState:
        state = super().init()
        kept: list[Node] = []
        fresh = state.encoder.nodes

        def nodes() -> list[Node]:
            kept.extend(fresh())
            return list(kept)

        state.encoder.nodes = nodes
        return state

    def release(self, state: SumState, noise: Noise):
        state.decoder = self.strategy.decoder(self.dimension)
        return super().release(state, noise.child(f"release {state.tick}"))


STRATEGIES: list[Strategy] = [BinaryTree(TICKS), HonakerTree(TICKS), Hybrid()]


@pytest.mark.parametrize("strategy", STRATEGIES, ids=lambda strategy: strategy.name)
@pytest.mark.parametrize("record", [1, 9, 24])
def test_honest_mechanisms_withstand_every_attack(strategy: Strategy, record: int) -> None:
    honest = mechanism_of(strategy)
    assert attack(honest, honest, record) == {
        "likelihood": [],
        "averaging": [],
        "whiteness": [],
    }


def test_the_discrete_gaussian_has_the_same_law() -> None:
    honest = mechanism_of(HonakerTree(TICKS), kind=NoiseKind.EXACT, strength=MU**2 / 2)
    found = attack(honest, honest, 9)
    assert found == {"likelihood": [], "averaging": [], "whiteness": []}


@pytest.mark.parametrize("strategy", STRATEGIES, ids=lambda strategy: strategy.name)
@pytest.mark.parametrize("kind", [Louder, Quieter])
def test_wrong_scales_are_found_by_every_attack(
    strategy: Strategy, kind: type[ContinualSum]
) -> None:
    found = attack(mechanism_of(strategy, kind), mechanism_of(strategy), 9)
    assert all(found.values())


@pytest.mark.parametrize("strategy", STRATEGIES, ids=lambda strategy: strategy.name)
def test_a_node_without_noise_is_found(strategy: Strategy) -> None:
    record = 5 if strategy.name == "hybrid" else 1
    found = attack(mechanism_of(strategy, Bare), mechanism_of(strategy), record)
    assert found["whiteness"]
    # The hybrid's estimate gives that node little weight: one test of one record is too weak.
    assert found["likelihood"] or strategy.name == "hybrid"


@pytest.mark.parametrize("strategy", STRATEGIES, ids=lambda strategy: strategy.name)
def test_noise_drawn_again_is_found_by_averaging_and_whiteness(strategy: Strategy) -> None:
    found = attack(mechanism_of(strategy, Redrawn), mechanism_of(strategy), 1)
    assert found["averaging"]
    assert found["whiteness"]


def node_outputs(
    mechanism: ContinualSum, seed: int, *, record: int | None, ticks: int
) -> dict[tuple[int, ...], np.ndarray]:
    """All measurements up to a tick, by address, in units of the sum."""
    state, noise = mechanism.init(), Noise.insecure(seed)
    nodes: dict[tuple[int, ...], np.ndarray] = {}
    for tick in range(1, ticks + 1):
        value = np.full(mechanism.dimension, ONE if tick == record else 0, np.int64)
        mechanism.absorb(state, ExactVector.from_integers(value, -20))
        for measured in mechanism.release(state, noise)[0]:
            nodes[measured.address] = np.ldexp(measured.value.astype(float), measured.exponent)
    return nodes


def prefix_separation(mechanism: ContinualSum, record: int, ticks: int):
    """The best test of a record from every measurement up to a tick, against the claim."""
    without = node_outputs(mechanism, 21, record=None, ticks=ticks)
    present = node_outputs(mechanism, 22, record=record, ticks=ticks)
    noisy = [address for address in without if address[0] != EXPIRED]
    # The record moves the mean of the nodes that hold it by 1, and no other.
    touched = [a for a in noisy if abs(present[a].mean() - without[a].mean()) > 0.5]
    null = sum(without[address] for address in touched)
    alternative = sum(present[address] for address in touched)
    return separation_finding(
        "prefix", np.asarray(null), np.asarray(alternative), MU, false_alarm=FALSE_ALARM
    )


@pytest.mark.parametrize("window", [4, 6, 8])
def test_a_live_record_is_hidden_from_the_whole_prefix(window: int) -> None:
    mechanism = mechanism_of(WindowTree(window))
    first = window.bit_length() - 1
    # The first record of a largest node touches a node on every level before it expires.
    record = (1 << first) + 1
    finding = prefix_separation(mechanism, record, record + window - 1)
    assert finding.passed, str(finding)


@pytest.mark.parametrize("window", [4, 6, 8])
def test_an_expired_record_is_published_exactly(window: int) -> None:
    mechanism = mechanism_of(WindowTree(window))
    record = 5
    nodes = node_outputs(mechanism, 23, record=record, ticks=record + window)
    published = nodes[EXPIRED, record] - nodes.get((EXPIRED, record - 1), np.zeros(RUNS))
    np.testing.assert_allclose(published, 1.0, atol=2.0**-20)
    before = node_outputs(mechanism, 23, record=record, ticks=record + window - 1)
    assert not any(nodes.any() for address, nodes in before.items() if address[0] == EXPIRED)


@pytest.mark.parametrize("window", [4, 8])
def test_refreshing_a_partly_expired_node_is_found(window: int) -> None:
    broken = RefreshedWindowTree(window)
    record = window
    finding = prefix_separation(mechanism_of(broken), record, record + window - 1)
    assert finding.statistic > finding.upper
    with pytest.raises(AssertionError, match="live records shift"):
        check_expiry(broken, 3 * window, Participation(), window=window)


def spherical_noise(mechanism: ContinualSum, runs: int) -> np.ndarray:
    """The noise of ``runs`` nodes on a stream of zeros, in units of the sum."""
    nodes = []
    state, noise = mechanism.init(), Noise.insecure(31)
    zero = ExactVector.zeros(mechanism.dimension, -20)
    for _ in range(runs):
        mechanism.absorb(state, zero)
        for measured in mechanism.release(state, noise)[0]:
            nodes.append(np.ldexp(measured.value.astype(float), measured.exponent))
    return np.array(nodes)


def test_spherical_noise_has_its_law_and_others_do_not() -> None:
    pure = {"dimension": 6, "kind": NoiseKind.SPHERICAL_LAPLACE, "strength": 1.0}
    mechanism = mechanism_of(BinaryTree(3000), **pure)
    noise = spherical_noise(mechanism, 3000)
    scale = mechanism.sigma
    # Twelve levels, epsilon 1, and what the lattice costs.
    assert scale == pytest.approx(12, rel=5e-4)
    assert failures(spherical_attack(noise, scale=scale, false_alarm=FALSE_ALARM)) == []
    for wrong in (scale / 2, scale * 2):
        assert failures(spherical_attack(noise, scale=wrong, false_alarm=FALSE_ALARM))
    # Independent Laplace coordinates with the same mean norm, from the same draws' uniforms.
    uniform = np.argsort(np.argsort(noise, axis=0), axis=0) / 3000 + 0.5 / 3000
    laplace = -np.sign(uniform - 0.5) * np.log(1 - 2 * np.abs(uniform - 0.5))
    laplace *= np.linalg.norm(noise, axis=1).mean() / np.linalg.norm(laplace, axis=1).mean()
    assert failures(spherical_attack(laplace, scale=scale, false_alarm=FALSE_ALARM))
    skewed = np.abs(noise)
    assert failures(spherical_attack(skewed, scale=scale, false_alarm=FALSE_ALARM))
