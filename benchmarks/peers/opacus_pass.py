# pyright: basic, reportMissingImports=false
# (runs in the peers' environment, which the project's type checker does not see)
"""One pass of noisy gradient descent by Opacus: every tick one batch, every record in one batch.

Batches are the stream's ticks, not samples, so nothing is amplified: Gaussian noise for the whole
budget on each, and records in different ticks compose in parallel. Opacus clips each record's
gradient, sums and adds the noise. Averaged gradients, steps that fall as the root of the tick; the
first step is tried at three sizes, the best of which is hindsight.
"""

import sys
import warnings
from pathlib import Path

import numpy as np
import torch
from dp_accounting import gaussian_mechanism
from opacus.grad_sample import GradSampleModule
from opacus.optimizers import DPOptimizer

EPSILON, DELTA = 1.0, 1e-6
STEPS = (2.0, 8.0, 32.0)


def main() -> None:
    # Hooks of modules whose input needs no gradient warn; no gradient is lost by it here.
    warnings.simplefilter("ignore")
    folder, out, seed = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    features = torch.from_numpy(np.load(folder / "features.npy"))
    labels = torch.from_numpy(np.load(folder / "labels.npy"))
    ends = np.load(folder / "ends.npy").tolist()
    sigma = gaussian_mechanism.get_sigma_gaussian(EPSILON, DELTA)
    found = {}
    for rate in STEPS:
        model = GradSampleModule(torch.nn.Linear(features.shape[1], 1, bias=False).double())
        torch.nn.init.zeros_(model._module.weight)
        optimizer = DPOptimizer(
            torch.optim.SGD(model.parameters(), lr=rate),
            noise_multiplier=sigma,
            max_grad_norm=1.0,
            expected_batch_size=1,
            generator=torch.Generator().manual_seed(seed),
        )
        points = []
        for tick, (start, stop) in enumerate(zip([0, *ends[:-1]], ends, strict=True), start=1):
            points.append(model._module.weight.detach().numpy()[0].copy())
            optimizer.expected_batch_size = stop - start
            optimizer.param_groups[0]["lr"] = rate / tick**0.5
            optimizer.zero_grad()
            margins = labels[start:stop] * model(features[start:stop])[:, 0]
            torch.nn.functional.softplus(-margins).mean().backward()
            optimizer.step()
        found[f"one noisy pass by Opacus, first step {rate:g}"] = np.array(points)
    np.savez(out, **found)


if __name__ == "__main__":
    main()
