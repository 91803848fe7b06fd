"""What POCP claims its releases move by, step by step: written once for the white-box tests."""

import numpy as np

from dpstream.learners.online.pocp import POCP
from dpstream.learners.online.release_sensitivity import release_sensitivity


def claimed(model: POCP, *, steps: int, width: int = 2) -> np.ndarray:
    """The declared shift of the released value after 1, 2, ..., ``steps`` steps."""
    return np.array(
        [
            release_sensitivity(
                model.algorithm,
                model.problem,
                steps=t,
                output=model.output,
                neighbours=model.neighbours,
                cap=model.unit.cap,
                width=width,
            )
            for t in range(1, steps + 1)
        ]
    )
