"""Before any data: what each release of a perturbed learner costs, and its noise."""

from collections.abc import Sequence
from typing import Any

from dpstream.learners.online.pocp import POCP


def release_prices(learner: POCP, releases: Sequence[tuple[int, int]]) -> list[dict[str, Any]]:
    """Share of the budget and noise of releases, each given by its number and its records.

    The noise is a coordinate's standard deviation in scaled units, before a projection.
    """
    return [
        {
            "release": number,
            "records": records,
            "share": learner.price.price(number),
            "standard_deviation": learner.noise_scale(records, number)[0],
        }
        for number, records in releases
    ]
