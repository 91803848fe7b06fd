"""The promise to keep: one epsilon and delta for a stream's whole life."""

from dataclasses import dataclass

from dpstream.errors import ConfigurationError


@dataclass(frozen=True, kw_only=True)
class Budget:
    """What everything published from a stream, taken together and for ever, may cost.

    Attributes:
        epsilon: above 0 and finite.
        delta: in [0, 1); 0 asks for pure differential privacy, which Gaussian noise cannot give.
    """

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        for name in ("epsilon", "delta"):
            value = getattr(self, name)
            if isinstance(value, bool) or not hasattr(value, "__float__"):
                raise ConfigurationError(
                    f"budget {name} is {value!r}; it must be a number, such as "
                    f"{1.0 if name == 'epsilon' else 1e-6}"
                )
            object.__setattr__(self, name, float(value))
        if not 0.0 < self.epsilon < float("inf"):
            raise ConfigurationError(
                f"budget epsilon is {self.epsilon!r}; it must be positive and finite"
            )
        if not 0.0 <= self.delta < 1.0:
            raise ConfigurationError(
                f"budget delta is {self.delta!r}; it must be in [0, 1), and 0 only for pure noise"
            )
