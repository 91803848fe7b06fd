# pyright: basic, reportMissingImports=false
# (runs in the peers' environment, which the project's type checker does not see)
"""DP-FTRL with the buffered Toeplitz noise of jax-privacy, whose learner this is not.

jax-privacy has the mechanism (strategy, its sensitivity, correlated noise, an optax transform) for
training with a known horizon; the stream around it is written here: each tick's clipped gradients
are taken at the model in force, summed, noised, and stepped along. A record takes part once.

The step of "public step" is distance over gradients from public numbers alone, with the guess of
the distance that this project's learner has by default. The others are that step times powers of
two: the best of them is hindsight.
"""

import math
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax
from dp_accounting import gaussian_mechanism
from jax_privacy import noise_addition
from jax_privacy.matrix_factorization import buffered_toeplitz

EPSILON, DELTA = 1.0, 1e-6
CLIP = 1.0
GUESS = 2.0
"""Of a weight's size."""

POWERS = (0, 1, 2, 3, 4)


def main() -> None:
    jax.config.update("jax_enable_x64", True)
    folder, out, seed = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    features, labels = np.load(folder / "features.npy"), np.load(folder / "labels.npy")
    ends = np.load(folder / "ends.npy").tolist()
    width, ticks = features.shape[1], len(ends)
    starts = [0, *ends[:-1]]
    strategy = buffered_toeplitz.optimize(n=ticks, max_participations=1)
    sensitivity = math.sqrt(float(buffered_toeplitz.sensitivity_squared(strategy, ticks)))
    sigma = gaussian_mechanism.get_sigma_gaussian(EPSILON, DELTA) * sensitivity * CLIP
    sizes = np.subtract(ends, starts).astype(float)
    public_step = GUESS * math.sqrt(width) / math.sqrt(float(np.sum(sizes**2)) * CLIP**2)

    found = {}
    for power in POWERS:
        privatizer = noise_addition.matrix_factorization_privatizer(
            strategy.inverse_as_streaming_matrix(), stddev=sigma, prng_key=seed
        )
        optimizer = optax.chain(privatizer, optax.sgd(public_step * 2.0**power))
        update = jax.jit(optimizer.update)
        point = jnp.zeros(width)
        state, points = optimizer.init(point), []
        for start, stop in zip(starts, ends, strict=True):
            points.append(np.asarray(point))
            rows, signs = features[start:stop], labels[start:stop]
            # Slopes are at most 1 and rows at most 1 long: the clip never acts.
            slopes = -signs / (1.0 + np.exp(signs * (rows @ points[-1])))
            step, state = update(jnp.asarray(slopes @ rows), state)
            point = optax.apply_updates(point, step)
        name = "public step" if power == 0 else f"step times {2.0**power:g}"
        found[f"DP-FTRL on jax-privacy's BLT noise, {name}"] = np.array(points)
    np.savez(out, **found)


if __name__ == "__main__":
    main()
