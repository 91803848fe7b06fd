"""Public randomness, for the layers that may not import ``dpstream.randomness``."""

from dpstream.randomness.public import PublicGenerator, public_generator

__all__ = ["PublicGenerator", "public_generator"]
