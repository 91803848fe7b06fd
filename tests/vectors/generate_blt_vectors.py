"""Make ``blt_vectors.json``: BLT coefficients by jax-privacy, an independent optimiser.

Run in an environment of its own: ``pip install jax-privacy==2.0.0`` (made with jax 0.10.2).
``loss`` is the squared maximal error of a running sum at sensitivity 1.
"""

import json
import sys
from pathlib import Path

import jax

jax.config.update("jax_enable_x64", True)

from jax_privacy.matrix_factorization import buffered_toeplitz  # noqa: E402 - after the precision

CASES = [(1000, 3), (1000, 5), (1024, 5), (4096, 5), (10**4, 5), (65536, 5), (10**6, 3), (10**6, 5)]


def main() -> None:
    vectors = []
    for horizon, buffers in CASES:
        blt = buffered_toeplitz.optimize(n=horizon, min_buffers=buffers, max_buffers=buffers)
        loss = buffered_toeplitz.LossFn.build_closed_form_single_participation(n=horizon).loss(blt)
        vectors.append(
            {
                "horizon": horizon,
                "buffers": buffers,
                "loss": float(loss),
                "theta": [float(value) for value in blt.buf_decay],
                "omega": [float(value) for value in blt.output_scale],
            }
        )
    made_by = {"jax-privacy": "2.0.0", "jax": jax.__version__, "python": sys.version.split()[0]}
    path = Path(__file__).with_name("blt_vectors.json")
    path.write_text(json.dumps({"made_by": made_by, "vectors": vectors}, indent=1) + "\n")


if __name__ == "__main__":
    main()
