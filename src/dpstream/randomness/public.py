"""Public randomness: projections, bootstrap replicates, simulations. Never noise.

Whatever is drawn here is assumed known to everyone; no privacy statement may rest on it.
"""

import numpy as np

PublicGenerator = np.random.Generator  # noqa: TID251 - this module owns public randomness
"""The type of a public generator, for the layers that may not name numpy.random."""


def public_generator(seed: int) -> PublicGenerator:
    """A seeded generator whose every draw is public."""
    return np.random.default_rng(seed)  # noqa: TID251 - this module owns public randomness
