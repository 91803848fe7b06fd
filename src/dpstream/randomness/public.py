"""Public randomness: projections, bootstrap replicates, simulations. Never noise.

Whatever is drawn here is assumed known to everyone; no privacy statement may rest on it.
"""

import numpy as np


def public_generator(seed: int) -> np.random.Generator:
    """A seeded generator whose every draw is public."""
    return np.random.default_rng(seed)  # noqa: TID251 - the owner of public randomness


PublicGenerator = np.random.Generator  # noqa: TID251 - the type's name for the layers above
