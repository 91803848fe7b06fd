"""Made-up files in the form of real tables, a few hundred records each."""

import json
from pathlib import Path

import numpy as np

from dpstream.randomness.public import PublicGenerator


def write_adult(folder: Path, generator: PublicGenerator, *, records: int, levels: str) -> None:
    """``adult.npz`` with eight categorical columns, whose levels are the letters given."""
    columns = [f"c{index}" for index in range(8)]
    np.savez(
        folder / "adult.npz",
        num=generator.integers(1, 99, (records, 6)),
        cat=generator.integers(0, len(levels), (records, 8)),
        y=generator.integers(0, 2, records),
        cat_columns=np.array(json.dumps(columns)),
        vocab=np.array(json.dumps({name: list(levels) for name in columns})),
    )
