# pyright: basic, reportMissingImports=false
# (runs in the peers' environment, which the project's type checker does not see)
"""diffprivlib's logistic regression, refitted as the stream doubles.

It has no streaming learner and no ledger that outlives a process, so a user refits. Two ways that
keep epsilon = 1 for the stream's whole life: each refit on the records since the last, whole budget
each (they are disjoint); or on all records so far, the budget split over the refits. Objective
perturbation, pure epsilon. C = 1 is the library's default; the smaller ones, which damp early
models, are hindsight.
"""

import sys
import warnings
from pathlib import Path

import numpy as np
from diffprivlib.models import LogisticRegression

EPSILON = 1.0
FIRST = 1024
STRENGTHS = (1.0, 0.1, 0.01)


def fitted(features, labels, epsilon, strength, seed):
    model = LogisticRegression(
        epsilon=epsilon,
        data_norm=1.0,
        C=strength,
        fit_intercept=False,
        max_iter=300,
        random_state=seed,
    )
    return model.fit(features, labels).coef_[0]


def main() -> None:
    # A warning tells of what the library cannot certify; none is expected here.
    warnings.simplefilter("error", category=UserWarning)
    folder, out, seed = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    features, labels = np.load(folder / "features.npy"), np.load(folder / "labels.npy")
    # Admitted norms are at most 1 up to a rounding.
    features *= 1.0 - 1e-9
    ends = np.load(folder / "ends.npy").tolist()
    marks = [FIRST << k for k in range(64) if FIRST << k < len(labels)]

    def in_force(fits):
        points, current, left = [], np.zeros(features.shape[1]), list(fits)
        for start in [0, *ends[:-1]]:
            while left and left[0][0] <= start:
                current = left.pop(0)[1]
            points.append(current)
        return np.array(points)

    found = {}
    for strength in STRENGTHS:
        newest, everything, begun = [], [], 0
        for place, mark in enumerate(marks):
            stop = next(end for end in ends if end >= mark)
            new, own = slice(begun, stop), 1000 * (seed + 1) + place
            newest.append((stop, fitted(features[new], labels[new], EPSILON, strength, own)))
            share, seen = EPSILON / len(marks), slice(0, stop)
            everything.append((stop, fitted(features[seen], labels[seen], share, strength, own)))
            begun = stop
        found[f"diffprivlib, refits on the newest half, C = {strength:g}"] = in_force(newest)
        found[f"diffprivlib, refits on all records, C = {strength:g}"] = in_force(everything)
    np.savez(out, **found)


if __name__ == "__main__":
    main()
