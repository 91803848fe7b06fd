"""Writes witness_vectors.json: tree nodes, the discrete Gaussian's law and price, projections.

Run in an environment of its own, from anywhere:
``pip install opendp==0.16.0 dp-accounting==0.6.0 mpmath==1.4.1 cvxpy==1.9.3 clarabel==0.11.1``.
The values depend on no code of this package. Versions of what made them are in the file.
"""

import json
import math
import sys
from importlib.metadata import version
from pathlib import Path

import cvxpy as cp
import mpmath as mp
import numpy as np
import opendp.prelude as dp
from dp_accounting.pld import privacy_loss_distribution as pld

mp.mp.dps = 60
dp.enable_features("contrib", "honest-but-curious")

LEAVES = (1, 2, 4, 8, 32)
VARIANCES = (("1", "4"), ("1", "1"), ("9", "1"), ("1000", "7"))
SCALES = (1.0, 3.0, 20.0)
DIMENSION = 6


def tree(leaves, values):
    """All nodes of a complete binary tree, the root first, by OpenDP."""
    integers = dp.vector_domain(dp.atom_domain(T=dp.i64))
    make = dp.t.make_b_ary_tree
    nodes = make(integers, dp.l1_distance(T=dp.i64), leaf_count=leaves, branching_factor=2)
    return nodes(values)


def masses(variance):
    """The discrete Gaussian's mass at 0, 1, 2, ..., until it is below 1e-30."""
    reach = int(mp.ceil(mp.sqrt(140 * variance))) + 2
    weights = [mp.exp(-(mp.mpf(y) ** 2) / (2 * variance)) for y in range(reach)]
    total = weights[0] + 2 * mp.fsum(weights[1:])
    return [mp.nstr(weight / total, 25) for weight in weights if weight / total > mp.mpf("1e-30")]


def constraints(name, y):
    """Sets of radius 1.2, or of total 2, as cones and inequalities."""
    return {
        "l2": lambda: [cp.norm(y, 2) <= 1.2],
        "l1": lambda: [cp.norm(y, 1) <= 1.2],
        "simplex": lambda: [y >= 0, cp.sum(y) == 2],
        "lp": lambda: [cp.pnorm(y, 1.25) <= 1.2],
        "group": lambda: [cp.norm(y[:4], 2) + cp.norm(y[4:], 2) <= 1.2],
        "interpolation": lambda: [0.7 * cp.norm(y, 1) + 0.3 * cp.norm(y, 2) <= 1.2],
        "nuclear": lambda: [cp.normNuc(cp.reshape(y, (2, 3), order="C")) <= 1.2],
    }[name]()


def projection(name, point):
    """The nearest point of a set, by cvxpy's interior-point solver."""
    y = cp.Variable(DIMENSION)
    problem = cp.Problem(cp.Minimize(cp.sum_squares(y - np.array(point))), constraints(name, y))
    tight = {"tol_gap_abs": 1e-10, "tol_gap_rel": 1e-10, "tol_feas": 1e-10}
    problem.solve(solver=cp.CLARABEL, **tight)
    return [float(value) for value in y.value]


def scattered():
    """Numbers in [-2.5, 2.5] that follow no pattern, the same on every machine."""
    step = 0
    while True:
        step += 1
        yield round(2.5 * math.sin(7.0 * step * step + 3.0 * step), 9)


def main():
    draws = scattered()
    trees, projections = [], []
    for leaves in LEAVES:
        values = [round(400 * next(draws)) for _ in range(leaves)]
        trees.append({"leaves": values, "nodes": tree(leaves, values)})
    for name in ("l2", "l1", "simplex", "lp", "group", "interpolation", "nuclear"):
        for _ in range(4):
            point = [next(draws) for _ in range(DIMENSION)]
            projections.append({"set": name, "point": point, "nearest": projection(name, point)})
    laws = [
        {"variance": list(pair), "masses": masses(mp.mpf(pair[0]) / mp.mpf(pair[1]))}
        for pair in VARIANCES
    ]
    integers = dp.vector_domain(dp.atom_domain(T=dp.i64))
    prices = [
        {
            "sigma": sigma,
            "delta": 1e-6,
            "epsilon": pld.from_discrete_gaussian_mechanism(sigma).get_epsilon_for_delta(1e-6),
            "rho": dp.m.make_gaussian(integers, dp.l2_distance(T=dp.f64), scale=sigma).map(1.0),
        }
        for sigma in SCALES
    ]
    names = ("opendp", "dp-accounting", "mpmath", "cvxpy", "clarabel")
    made_by = {name: version(name) for name in names} | {"python": sys.version.split()[0]}
    content = {
        "made_by": made_by,
        "tree_nodes": trees,
        "discrete_gaussian": laws,
        "discrete_gaussian_price": prices,
        "projections": projections,
    }
    path = Path(__file__).with_name("witness_vectors.json")
    path.write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
