# pyright: basic, reportMissingImports=false
# (runs in the peers' environment, which the project's type checker does not see)
"""River's logistic regression, a step at every record: no privacy, what streaming users run.

AdaGrad at the library's default rate; plain descent at its default rate is slower to learn here.
"""

import sys
from pathlib import Path

import numpy as np
from river import linear_model, optim


def main() -> None:
    folder, out = Path(sys.argv[1]), sys.argv[2]
    features, labels = np.load(folder / "features.npy"), np.load(folder / "labels.npy")
    ends = np.load(folder / "ends.npy").tolist()
    width = features.shape[1]
    model = linear_model.LogisticRegression(optim.AdaGrad(), intercept_lr=0.0)
    points = []
    for start, stop in zip([0, *ends[:-1]], ends, strict=True):
        points.append([model.weights.get(j, 0.0) for j in range(width)])
        for row, label in zip(features[start:stop], labels[start:stop], strict=True):
            present = np.flatnonzero(row)
            record = dict(zip(present.tolist(), row[present].tolist(), strict=True))
            model.learn_one(record, bool(label > 0))
    np.savez(out, **{"river, AdaGrad, without privacy": np.array(points)})


if __name__ == "__main__":
    main()
