"""Running sums at every tick, here and with other libraries, at one budget: whose noise is what.

The stream is zeros, one record of size 1 per tick, (1, 1e-6) against nulling one record, so what is
published is the noise. Ours is the default strategy with a horizon and without, drawn by the real
mechanism; peers run in an environment of their own, as for ``online_peers.py``. What each of them
does, ``peers/running_sums.py`` says.
"""

import argparse
import json
import subprocess
import tempfile
from pathlib import Path

import numpy as np
from online_peers import make_environment, own_environment

from dpstream.bench.sums import prepared
from dpstream.domain.lattice import ExactVector
from dpstream.mechanisms.continual.choice import sum_strategy
from dpstream.mechanisms.mechanism import Noise

HERE = Path(__file__).resolve().parent
DRAWS = 4_096


def our_noise(name: str, ticks: int) -> tuple[float, float]:
    """Predicted and drawn standard deviation of the sum at the last tick."""
    strategy = sum_strategy(name, horizon=ticks, window=None, decay=None)
    summed = prepared(strategy, dimension=DRAWS, like=1)
    state, nothing, noise = summed.init(), ExactVector.zeros(DRAWS, -20), Noise.insecure(1)
    estimate = np.zeros(DRAWS)
    for _ in range(ticks):
        summed.absorb(state, nothing)
        estimate = summed.release(state, noise)[1]
    return float(np.sqrt(summed.variance(ticks)[0])), float(np.std(estimate))


def main() -> None:
    """Run it and print the table."""
    parser = argparse.ArgumentParser(description="running sums and their peers, in one run")
    parser.add_argument("--ticks", type=int, default=200, help="of the stream (200)")
    parser.add_argument("--environment", type=Path, required=True, help="the peers' environment")
    parser.add_argument("--out", type=Path, help="a file for the figures as JSON")
    given = parser.parse_args()
    python = make_environment(given.environment, torch=False)
    figures: dict[str, float] = {}
    for name, words in (("blt", "horizon declared"), ("chain", "no horizon")):
        predicted, drawn = our_noise(name, given.ticks)
        figures[f"dpstream, {words}"] = drawn
        figures[f"dpstream, {words}, as predicted"] = predicted
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "sums.npz"
        command = [str(python), str(HERE / "peers" / "running_sums.py"), str(out), str(given.ticks)]
        subprocess.run(command, env=own_environment(), check=True)
        with np.load(out) as found:
            figures |= {name: float(np.std(found[name])) for name in found.files}
    print(f"standard deviation of the sum after {given.ticks} published ticks")
    for name, value in figures.items():
        print(f"{name:52s} {value:8.2f}")
    if given.out is not None:
        figures["ticks"] = given.ticks
        given.out.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
