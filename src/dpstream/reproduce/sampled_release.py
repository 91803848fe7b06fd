"""Paper 003's sampling variants (algorithms 6 to 8): what they cost, and why they are not offered.

At level k a fit takes about B of ``2^k B`` records, each with a chance of about ``2^-k``, and its
noise is scaled as if it used all of them. So a record that is sampled pays ``2^k`` times what it
pays without sampling, and its small chance cannot win that back: the paper claims ``epsilon /
2^(k+1)`` for level k, because it takes the sampled fit to cost ``epsilon / 2``. Where the other
records sit at the alternative value, one number per record and a mean as the fit attain the cost
that is computed here exactly.
"""

import math
from typing import Any

import numpy as np


def sampled_level_epsilon(level: int, *, epsilon: float) -> float:
    """The pure cost of one sampled fit of level k, for noise scaled by ``2^k B``.

    The fit is a mean of B numbers with Laplace noise. Sampled, a record shifts it by ``2^k`` times
    what the noise was scaled for, that is by ``e = 2^k epsilon / 2`` noise scales. With chance p of
    being sampled, the largest likelihood ratio is ``1 + p (exp(e) - 1)``: attained far out on the
    side of the record's shift.

    Args:
        level: k.
        epsilon: what the paper claims for all levels together.
    """
    shift = 2.0**level * epsilon / 2.0
    chance = math.expm1(epsilon / 2.0 ** (level + 1)) / math.expm1(epsilon / 2.0)
    # In logarithms: exp(shift) overflows from level 10 on.
    return float(
        np.logaddexp(math.log1p(-chance) if chance < 1.0 else -math.inf, math.log(chance) + shift)
    )


def sampled_release_cost(*, epsilon: float = 1.0, levels: int = 7) -> list[dict[str, Any]]:
    """By level: what is claimed, and what a sampled fit costs some record."""
    return [
        {
            "level": level,
            "claimed": epsilon / 2.0 ** (level + 1),
            "true": sampled_level_epsilon(level, epsilon=epsilon),
        }
        for level in range(levels)
    ]
