"""What the tests of learners over blocks declare."""

from typing import Any

from dpstream.domain.domain import Domain
from dpstream.privacy.budget import Budget
from dpstream.privacy.unit import Neighbours, Unit


def block_settings(domain: Domain, **own: Any) -> dict[str, Any]:
    """The settings of a learner over blocks, for ever and for single records."""
    return {
        "domain": domain,
        "budget": Budget(epsilon=1.0, delta=1e-6),
        "unit": Unit(),
        "neighbours": Neighbours.ZERO_OUT,
        "horizon": None,
        "ridge": 0.5,
        **own,
    }
