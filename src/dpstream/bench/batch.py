"""How accurate private batch classifiers are on real data, beside the non-private optimum.

Two data sets, read from a folder that the user gives: ``adult.npz`` (``num``: age, fnlwgt,
education number, capital gain, capital loss, hours; ``cat``: codes of eight columns; ``vocab``,
``cat_columns``; ``y``) and ``covtype.npz`` (``num``: ten numbers; ``wilderness``, ``soil``: codes;
``cover``). All scaling is by constants of the units and the documentation, never by the rows:

- numbers are mapped to [0, 1] by public bounds, categories to indicators (which also make the
  constant); so a record of a numbers and b categories has an L2 norm of at most ``sqrt(a + b)``,
  which is the declared bound: nothing is clipped;
- a public permutation holds a fifth of the records out for accuracy;
- the logistic loss on the L2 ball of radius 100, the same round number for both; every solver with
  its default options.

Run it by ``dpstream bench batch --data FOLDER``.
"""

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dpstream.arrays import FloatArray, IntArray
from dpstream.bench.history import Watch
from dpstream.domain.batch import Batch
from dpstream.domain.domain import Domain
from dpstream.errors import SourceError
from dpstream.geometry.l2_ball import L2Ball
from dpstream.losses.logistic import LogisticLoss
from dpstream.mechanisms.mechanism import Noise
from dpstream.mechanisms.public import public_generator
from dpstream.privacy.budget import Budget
from dpstream.privacy.unit import Neighbours, Unit
from dpstream.reproduce.real_records import COVER_LOWER, COVER_UPPER
from dpstream.solvers.minimiser import Target, least_tolerance, minimise
from dpstream.solvers.mirror_descent import MirrorDescent
from dpstream.solvers.noisy_sgd import NoisySgd
from dpstream.solvers.objective_perturbation import ObjectivePerturbation
from dpstream.solvers.output_perturbation import OutputPerturbation
from dpstream.solvers.permuted_sgd import PermutedSGD
from dpstream.solvers.plan import Solver
from dpstream.solvers.pol import OnlineToOffline
from dpstream.solvers.problem import Problem

WATCHED = (Watch("*/private/*/best_accuracy", "higher"),)

DELTA = 1e-6
EPSILONS = (1.0, 0.1)
DRAWS: Mapping[str, int] = {"adult": 5, "covtype": 2}
"""Noise draws for each mean; twelve times as many records need fewer."""
RADIUS = 100.0
"""Of the ball of parameters, for features scaled into the unit ball."""

_SPLIT_SEED = 7
_NON_PRIVATE_RIDGE = 1e-7

_WILDERNESS, _SOIL = 4, 40
_LODGEPOLE_PINE = 2


@dataclass(frozen=True)
class Table:
    """A data set ready for admission.

    Attributes:
        features: one row per record, entries in [0, 1].
        labels: -1 or 1.
        norm_bound: public bound of a row's L2 norm, which the encoding keeps.
    """

    features: FloatArray
    labels: FloatArray
    norm_bound: float


def read_arrays(path: Path) -> Mapping[str, Any]:
    """The arrays of an npz file without pickles; texts are read as JSON.

    Raises:
        SourceError: if there is no such file.
    """
    if not path.is_file():
        raise SourceError(f"there is no {path.name} in {path.parent}; give the folder that has it")
    with np.load(path, allow_pickle=False) as stored:
        arrays = {name: stored[name] for name in stored.files}
    return {
        name: json.loads(str(value)) if value.ndim == 0 and value.dtype.kind == "U" else value
        for name, value in arrays.items()
    }


def indicators(codes: IntArray, count: int) -> FloatArray:
    """One column per level."""
    return np.eye(count)[np.asarray(codes, np.int64)]


def adult(folder: Path) -> Table:
    """Income above 50,000: age / 100, education 1 to 16, log gain and loss, hours / 99."""
    stored = read_arrays(folder / "adult.npz")
    numbers = np.asarray(stored["num"], np.float64)
    scaled = np.stack(
        [
            numbers[:, 0] / 100,
            (numbers[:, 2] - 1) / 15,
            np.log1p(numbers[:, 3]) / np.log(1e5),
            np.log1p(numbers[:, 4]) / np.log(1e4),
            numbers[:, 5] / 99,
        ],
        axis=1,
    )
    levels = [
        indicators(stored["cat"][:, index], len(stored["vocab"][name]))
        for index, name in enumerate(stored["cat_columns"])
    ]
    return Table(
        features=np.hstack([np.clip(scaled, 0.0, 1.0), *levels]),
        labels=np.where(np.asarray(stored["y"]) == 1, 1.0, -1.0),
        norm_bound=math.sqrt(scaled.shape[1] + len(levels)),
    )


def covtype(folder: Path) -> Table:
    """Lodgepole pine against the rest: metres, degrees and shades by their units' ranges."""
    stored = read_arrays(folder / "covtype.npz")
    lower, upper = np.array(COVER_LOWER, np.float64), np.array(COVER_UPPER, np.float64)
    scaled = np.clip((stored["num"] - lower) / (upper - lower), 0.0, 1.0)
    return Table(
        features=np.hstack(
            [
                scaled,
                indicators(stored["wilderness"], _WILDERNESS),
                indicators(stored["soil"], _SOIL),
            ]
        ),
        labels=np.where(np.asarray(stored["cover"]) == _LODGEPOLE_PINE, 1.0, -1.0),
        norm_bound=math.sqrt(scaled.shape[1] + 2),
    )


TABLES: Mapping[str, Callable[[Path], Table]] = {"adult": adult, "covtype": covtype}


@dataclass(frozen=True)
class Split:
    """A problem with its records, and records held out.

    Attributes:
        problem: what every solver solves.
        training: its records.
        held_out: records for accuracy.
    """

    problem: Problem
    training: Batch
    held_out: Batch

    def accuracy(self, parameters: FloatArray) -> float:
        """On the records held out."""
        scores = self.held_out.scaled_features @ parameters
        return float(np.mean((scores > 0) == (self.held_out.scaled_targets[:, 0] > 0)))


def split_of(table: Table) -> Split:
    """Four fifths to learn from, by a public permutation."""
    order = public_generator(_SPLIT_SEED).permutation(len(table.labels))
    features, labels = table.features[order], table.labels[order]
    cut = len(labels) * 4 // 5
    dimension = features.shape[1]
    domain = Domain.vectors(dimension, norm_bound=table.norm_bound, target_bound=1.0)
    problem = Problem(
        loss=LogisticLoss(),
        convex_set=L2Ball(dimension=dimension, radius=RADIUS),
        domain=domain,
        records=cut,
        neighbours=Neighbours.ZERO_OUT,
        unit=Unit(),
    )
    return Split(
        problem,
        domain.admit(features[:cut], labels[:cut]),
        domain.admit(features[cut:], labels[cut:]),
    )


def compared_solvers() -> Mapping[str, Solver]:
    """The solvers of this benchmark, with their default options."""
    return {
        "objective_perturbation": ObjectivePerturbation(),
        "mirror_descent": MirrorDescent(),
        "noisy_sgd": NoisySgd(),
        "output_perturbation": OutputPerturbation(),
        "output_perturbation, spherical Laplace": OutputPerturbation(noise="spherical_laplace"),
        "permuted_sgd": PermutedSGD(),
        "pol, last iterate": OnlineToOffline(result="last"),
    }


def non_private(split: Split) -> float:
    """Accuracy of the optimum of the same loss on a ball ten times as large."""
    problem = split.problem
    wide = Problem(
        loss=problem.loss,
        convex_set=L2Ball(
            dimension=problem.dimension, radius=10.0 * problem.convex_set.l2_radius()
        ),
        domain=problem.domain,
        records=problem.records,
        neighbours=problem.neighbours,
        unit=problem.unit,
    )
    target = Target(problem=wide, modulus=_NON_PRIVATE_RIDGE, centre=np.zeros(problem.dimension))
    tolerance = max(1e-9, least_tolerance(target))
    return split.accuracy(minimise(target, split.training, tolerance=tolerance).point)


def figures(split: Split, *, draws: int) -> dict[str, Any]:
    """Accuracy of every solver at every budget, in the mean over noise draws."""
    labels = split.held_out.scaled_targets[:, 0]
    share = float(np.mean(labels > 0))
    private: dict[str, Any] = {}
    for epsilon in EPSILONS:
        found: dict[str, Any] = {}
        for name, solver in compared_solvers().items():
            plan = solver.plan(split.problem, Budget(epsilon=epsilon, delta=DELTA))
            values = [
                split.accuracy(
                    solver.release(plan, split.training, Noise.insecure(seed)).parameters
                )
                for seed in range(draws)
            ]
            found[name] = {
                "accuracy": float(np.mean(values)),
                "standard_deviation": float(np.std(values, ddof=1)) if draws > 1 else None,
                "excess_bound": plan.excess_bound,
            }
        best = max(found, key=lambda name: found[name]["accuracy"])
        private[f"epsilon={epsilon:g}"] = {
            "best": best,
            "best_accuracy": found[best]["accuracy"],
            "output_perturbation_accuracy": found["output_perturbation"]["accuracy"],
            "solvers": found,
        }
    return {
        "records": split.problem.records,
        "features": split.problem.dimension,
        "draws": draws,
        "majority_accuracy": max(share, 1.0 - share),
        "non_private_accuracy": non_private(split),
        "private": private,
    }


def run(
    *, data: Path, names: tuple[str, ...] = tuple(TABLES), draws: int | None = None
) -> dict[str, Any]:
    """Accuracies on adult and covtype at epsilon 1 and 0.1, delta 1e-6, zero_out; JSON-ready.

    Args:
        data: the folder with ``adult.npz`` and ``covtype.npz``.
        names: which of them.
        draws: noise draws for each mean; None for ``DRAWS``.

    Raises:
        SourceError: if a file is missing.
    """
    return {
        "delta": DELTA,
        "neighbours": Neighbours.ZERO_OUT.value,
        **{
            name: figures(split_of(TABLES[name](data)), draws=draws or DRAWS[name])
            for name in names
        },
    }
