"""What POCP claims its releases move by, and how far neighbours found by search do move them."""

import itertools
from collections.abc import Callable

import numpy as np

from dpstream.domain.domain import Domain
from dpstream.learners.online.pocp import POCP
from dpstream.learners.online.release_sensitivity import release_sensitivity
from dpstream.mechanisms.public import public_generator
from dpstream.privacy.budget import Budget
from dpstream.privacy.unit import Neighbours, Unit

Values = Callable[[POCP, np.ndarray, np.ndarray], np.ndarray]
"""The secret value after every step of a stream of features and targets, null where missing."""


def perturbed(**settings: object) -> POCP:
    """A learner of two features."""
    given: dict[str, object] = {
        "domain": Domain.vectors(2, norm_bound=1.0, target_bound=1.0),
        "budget": Budget(epsilon=1.0, delta=1e-6),
        "unit": Unit(),
        "neighbours": Neighbours.ZERO_OUT,
    }
    return POCP(**(given | settings))


def claimed(model: POCP, *, steps: int, width: int = 2) -> np.ndarray:
    """The declared shift of the released value after 1, 2, ..., ``steps`` steps."""
    return np.array(
        [
            release_sensitivity(
                model.algorithm,
                model.problem,
                steps=t,
                output=model.output,
                neighbours=model.neighbours,
                cap=model.unit.cap,
                width=width,
            )
            for t in range(1, steps + 1)
        ]
    )


def found_shifts(model: POCP, values: Values, *, place: int, steps: int) -> np.ndarray:
    """The largest distance found after every step, between neighbours that differ at ``place``.

    The other records are null, random, or aligned with the one that differs.
    """
    generator = public_generator(3)
    x, y = generator.standard_normal((steps, 2)), generator.choice([-1.0, 1.0], steps)
    crowds = [
        (np.full((steps, 2), np.nan), y),
        (x, y),
        (np.tile([1.0, 0.0], (steps, 1)), np.where(np.arange(steps) % 2, 1.0, -1.0)),
    ]
    own = [(np.array([sign, 0.0]), label) for sign in (1.0, -1.0) for label in (1.0, -1.0)]
    pairs = [(record, (np.full(2, np.nan), np.nan)) for record in own]
    if model.neighbours is Neighbours.REPLACE:
        pairs += list(itertools.combinations(own, 2))
    best = np.zeros(steps)
    for (features, targets), pair in itertools.product(crowds, pairs):
        sides = []
        for record, label in pair:
            held_x, held_y = features.copy(), targets.copy()
            held_x[place], held_y[place] = record, label
            sides.append(values(model, held_x, held_y))
        best = np.maximum(best, np.linalg.norm(sides[0] - sides[1], axis=1))
    return best
