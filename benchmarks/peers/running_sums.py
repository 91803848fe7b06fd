# pyright: basic, reportMissingImports=false
# (runs in the peers' environment, which the project's type checker does not see)
"""The running sum of a stream of zeros, published at every tick, as each library can do it.

(1, 1e-6), one record of size 1 per tick. What is written is the noise: one row per way, one column
per draw, at the last tick.

- OpenDP: Gaussian measurements composed by its own accounting. It has no continual release, so
  either every tick's sum is measured afresh with a share of the budget, or every tick is measured
  once (records are disjoint) and the sums are added up.
- jax-privacy: its buffered Toeplitz mechanism, whose noise is made for gradients and here stands
  for itself: the running sum of the correlated noise it adds.
"""

import math
import sys

import jax
import jax.numpy as jnp
import numpy as np
import opendp.prelude as dp
from dp_accounting import gaussian_mechanism
from jax_privacy import noise_addition
from jax_privacy.matrix_factorization import buffered_toeplitz

EPSILON, DELTA = 1.0, 1e-6
DRAWS = 400


def opendp_scale(releases: int) -> float:
    """The noise of each of so many Gaussian measurements of one record, by OpenDP's accounting."""
    dp.enable_features("contrib")
    space = dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float)

    def composed(scale: float):
        one = dp.m.make_gaussian(*space, scale=scale)
        many = dp.c.make_composition([one] * releases)
        return dp.c.make_fix_delta(dp.c.make_zCDP_to_approxDP(many), delta=DELTA)

    return dp.binary_search_param(composed, d_in=1.0, d_out=(EPSILON, DELTA), bounds=(0.1, 1e5))


def jax_noise(ticks: int) -> np.ndarray:
    """The running sum's error at the last tick, in as many coordinates as there are draws."""
    strategy = buffered_toeplitz.optimize(n=ticks, max_participations=1)
    sensitivity = math.sqrt(float(buffered_toeplitz.sensitivity_squared(strategy, ticks)))
    sigma = gaussian_mechanism.get_sigma_gaussian(EPSILON, DELTA) * sensitivity
    privatizer = noise_addition.matrix_factorization_privatizer(
        strategy.inverse_as_streaming_matrix(), stddev=sigma, prng_key=0
    )
    zero = jnp.zeros(DRAWS)
    state, total = privatizer.init(zero), zero
    update = jax.jit(privatizer.update)
    for _ in range(ticks):
        noisy, state = update(zero, state)
        total = total + noisy
    return np.asarray(total)


def main() -> None:
    jax.config.update("jax_enable_x64", True)
    out, ticks = sys.argv[1], int(sys.argv[2])
    one = opendp_scale(1)
    shared = opendp_scale(ticks)
    space = dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float)
    each, every = dp.m.make_gaussian(*space, scale=one), dp.m.make_gaussian(*space, scale=shared)
    np.savez(
        out,
        **{
            "OpenDP, each tick measured once, added up": np.array(
                [math.fsum(each(0.0) for _ in range(ticks)) for _ in range(DRAWS)]
            ),
            "OpenDP, the sum measured afresh at every tick": np.array(
                [every(0.0) for _ in range(DRAWS)]
            ),
            "jax-privacy, buffered Toeplitz": jax_noise(ticks),
        },
    )


if __name__ == "__main__":
    main()
