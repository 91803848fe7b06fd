"""Where noise enters, and the only vocabulary the layers above need for it.

Everything above this layer receives a ``Noise``: a handle that adds calibrated noise to an
exact statistic and returns a measurement. It cannot be asked for noise alone.
"""

from dpstream.randomness.source import NoiseSource

Noise = NoiseSource
"""The handle of a noise source, under the name that learners and the engine use."""
