"""The audit's attacks, under the name by which test suites import them."""

from dpstream.audit.attack import (
    averaging_attack,
    likelihood_ratio_attack,
    separation_finding,
    spherical_attack,
    variance_finding,
    whiteness_attack,
)
from dpstream.audit.finding import Finding, failures

__all__ = [
    "Finding",
    "averaging_attack",
    "failures",
    "likelihood_ratio_attack",
    "separation_finding",
    "spherical_attack",
    "variance_finding",
    "whiteness_attack",
]
