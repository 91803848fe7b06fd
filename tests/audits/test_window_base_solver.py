"""Other solvers in a fit's place: the worst neighbours' shifts, and what a fit is charged for."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from watched_fits import watched_fits

from dpstream.domain.batch import Batch
from dpstream.domain.domain import Domain
from dpstream.errors import ConfigurationError
from dpstream.learners.window.block_learner import BlockLearner
from dpstream.learners.window.fit import BlockSolver, FitPlan
from dpstream.learners.window.multi_resolution import MultiResolutionRelease
from dpstream.learners.window.sliding_window import SlidingWindowRelease
from dpstream.losses.huber import HuberLoss
from dpstream.mechanisms.public import public_generator
from dpstream.privacy.budget import Budget
from dpstream.privacy.event import Event, GaussianEvent, PureEvent
from dpstream.privacy.unit import Neighbours, Unit
from dpstream.solvers.implicit_gradient import run
from dpstream.solvers.minimiser import Target, minimise
from dpstream.solvers.noisy_sgd import NoisySgd
from dpstream.solvers.output_perturbation import NoiseKind, OutputPerturbation
from dpstream.solvers.permuted_sgd import PermutedSGD, descend
from dpstream.solvers.plan import Solver
from dpstream.solvers.pol import OnlineToOffline, pol_course

DOMAIN = Domain.vectors(3, norm_bound=1.0, target_bound=1.0)
RECORDS, BLOCKS = 6, 9


def settings(base: Solver, noise: NoiseKind, **changes: Any) -> dict[str, Any]:
    return {
        "domain": DOMAIN,
        "budget": Budget(epsilon=2.0, delta=1e-6),
        "unit": Unit(),
        "neighbours": Neighbours.ZERO_OUT,
        "horizon": BLOCKS,
        "loss": HuberLoss(threshold=0.05),
        "block_records": RECORDS,
        "ridge": 5.0,
        "radius": 50.0,
        "noise": noise,
        "base_solver": base,
    } | changes


def learners(base: Solver, noise: NoiseKind, **changes: Any) -> list[BlockLearner]:
    chosen = settings(base, noise, **changes)
    return [
        SlidingWindowRelease(window_records=5 * RECORDS, refresh=None, **chosen),
        SlidingWindowRelease(window_records=3 * RECORDS, **chosen),
        MultiResolutionRelease(levels=3, **chosen),
    ]


def price(event: Event) -> float:
    if isinstance(event, GaussianEvent):
        return event.mu**2
    assert isinstance(event, PureEvent)
    return event.epsilon


def stream() -> Batch:
    draw = public_generator(4)
    rows = draw.normal(size=(BLOCKS * RECORDS, 3))
    return DOMAIN.admit(rows, draw.uniform(-1, 1, len(rows)))


@pytest.mark.parametrize("noise", ["gaussian", "spherical_laplace"])
@pytest.mark.parametrize("cap", [1, 3])
def test_descents_of_neighbours_pay_at_most_the_claim_wherever_a_unit_stands(
    noise: NoiseKind, cap: int
) -> None:
    """The paper's own solver: one pass in five batches, far from all targets, where it is tight."""
    base = PermutedSGD(batch_size=2, epochs=2, noise=noise)
    unit = Unit() if cap == 1 else Unit(kind="user", cap=cap, column="id")
    batch = stream()
    far = DOMAIN.admit(np.array([[1.0, 0.0, 0.0]]), np.array([1.0])).rows[0]
    places = {
        "together": [4] * cap,
        "spread": [3, 5, 7][:cap],
        "one by one": list(range(cap)),
        "at the end": [BLOCKS - 1] * cap,
    }
    largest = 0.0
    for learner in learners(base, noise, unit=unit):
        (opening,) = learner.opening_events()
        fits = watched_fits(learner, batch)
        for held in places.values():
            first, second = batch.rows.copy(), batch.rows.copy()
            for block, number in Counter(held).items():
                for slot in range(number):
                    first[block * RECORDS + slot] = far
                    second[block * RECORDS + slot] = 0.0
            total = 0.0
            for plan, start, _ in fits:
                assert plan.course is not None
                span = slice(start * RECORDS, (start + plan.size) * RECORDS)
                ends = [
                    descend(plan.course, Batch(rows[span].copy(), 3)) for rows in (first, second)
                ]
                ratio = float(np.linalg.norm(ends[0] - ends[1])) / plan.noise.scale
                total += ratio**2 if noise == "gaussian" else ratio
            assert total <= price(opening)
            largest = max(largest, total / price(opening))
    # Where it is tight: otherwise any noise would pass.
    assert largest > 0.8


@pytest.mark.parametrize("noise", ["gaussian", "spherical_laplace"])
@pytest.mark.parametrize("cap", [1, 4])
def test_the_fits_that_use_a_block_cost_together_what_is_charged(
    noise: NoiseKind, cap: int
) -> None:
    unit = Unit() if cap == 1 else Unit(kind="user", cap=cap, column="id")
    for base in (
        PermutedSGD(noise=noise),
        OutputPerturbation(ridge=0.0, noise=noise),
        OnlineToOffline(noise=noise),
    ):
        for learner in learners(base, noise, unit=unit):
            paid = np.zeros(BLOCKS)
            for plan, start, _ in watched_fits(learner, stream()):
                paid[start : start + plan.size] += price(plan.noise.event("fit"))
            (opening,) = learner.opening_events()
            assert paid.max() <= price(opening)
            assert paid.max() == pytest.approx(price(opening), rel=1e-9)


def test_a_solver_that_measures_within_its_steps_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="measures within its steps"):
        learners(NoisySgd(), "gaussian")
    with pytest.raises(ConfigurationError, match="give both the same"):
        learners(PermutedSGD(), "spherical_laplace")
    with pytest.raises(ConfigurationError, match="give both the same"):
        learners(PermutedSGD(noise="spherical_laplace"), "gaussian")


def absent(batch: Batch) -> Batch:
    """The block without its first record: the others move up, and a null record fills it."""
    rows = np.concatenate([batch.rows[1:], np.zeros((1, batch.rows.shape[1]))])
    return Batch(rows, batch.dimension)


def test_a_record_that_did_not_come_is_hidden_by_minimisers_and_not_by_passes_in_order() -> None:
    """Targets by their public place in the pass: without the first record early ones come late."""
    records, domain = 512, Domain.vectors(1, norm_bound=1.0, target_bound=1.0)
    place = np.argsort(public_generator(0).permutation(records))
    sides = np.where(place < records // 2, 1.0, -1.0)
    block = domain.admit(np.ones((records, 1)), sides)

    def solver(base: Solver | None) -> BlockSolver:
        learner = MultiResolutionRelease(
            domain=domain,
            budget=Budget(epsilon=1.0, delta=1e-6),
            unit=Unit(),
            neighbours=Neighbours.ZERO_OUT,
            horizon=1,
            loss=HuberLoss(),
            block_records=records,
            ridge=0.5,
            radius=1.0,
            levels=1,
            base_solver=base,
        )
        assert learner.ordered is (base is not None and not isinstance(base, OutputPerturbation))
        return learner.solver

    def apart(chosen: BlockSolver, secret: Callable[[FitPlan, Batch], Any]) -> float:
        plan = chosen.plan(1, 0.5, np.zeros(1))
        moved = secret(plan, block) - secret(plan, absent(block))
        return float(np.linalg.norm(moved)) / plan.noise.sensitivity

    def certified(plan: FitPlan, batch: Batch) -> Any:
        target = Target(problem=solver(None).problem(1), modulus=0.5, centre=np.zeros(1))
        return minimise(target, batch, tolerance=plan.tolerance).point

    def descended(plan: FitPlan, batch: Batch) -> Any:
        assert plan.course is not None
        return descend(plan.course, batch)

    def passed(plan: FitPlan, batch: Batch) -> Any:
        assert plan.course is not None
        problem = plan.course.problem
        course = pol_course(records, modulus=0.5, result="suffix")
        return run(problem, course, batch, centre=np.zeros(1), seed=0)

    assert apart(solver(None), certified) <= 1.0
    assert apart(solver(PermutedSGD(batch_size=1, epochs=1)), descended) > 50.0
    assert apart(solver(OnlineToOffline()), passed) > 5.0
    assert not solver(OutputPerturbation()).ordered
