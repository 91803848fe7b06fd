"""Stream 80,000 real flights into a private model and compare it with what is not private.

Run by ``make demo``. The comparison reads the flights again, without privacy, to compute what a
data scientist would have had without it; only the folder of the run is the private product.
"""

import argparse
import json
import shutil
import sys
from pathlib import Path

import numpy as np

from dpstream.cli.assemble import assemble_source, assemble_stream
from dpstream.cli.config import load_config
from dpstream.cli.declaration import assemble_domain
from dpstream.cli.main import main as dpstream
from dpstream.learners.incremental.forecast import forecast

CONFIG = Path(__file__).with_name("flights.toml")


def call(*arguments: str) -> None:
    """Run one dpstream command; stop the demo if it fails."""
    print(f"$ dpstream {' '.join(arguments)}", flush=True)
    try:
        dpstream(list(arguments))
    except SystemExit as stopped:
        if stopped.code:
            sys.exit(stopped.code)


def compare(folder: Path) -> None:
    """Errors in minutes over all flights with known delays, clipped to the public bounds."""
    config = load_config(CONFIG)
    domain = assemble_domain(config)
    source = assemble_source(config, folder=CONFIG.parent, input_path=None)
    rows = [domain.admit(chunk) for chunk in source.chunks(0)]
    counted = np.concatenate([batch.rows[~batch.null] for batch in rows]) / 2.0**20
    design = counted[:, : 1 + domain.dimension]
    target = counted[:, 1 + domain.dimension]
    minutes = 1.0 / float(domain.target_map.scale[0])
    model = json.loads((folder / "model.json").read_text())["model"]["targets"][0]
    private = np.array(
        [model["intercept"]["estimate"], *model["coefficients"]["estimate"]], np.float64
    )
    best = np.linalg.lstsq(design, target, rcond=None)[0]

    def error(parameters: np.ndarray) -> float:
        return minutes * float(np.sqrt(np.mean((target - design @ parameters) ** 2)))

    constant = np.zeros_like(best)
    constant[0] = target.mean()
    records = len(np.concatenate([batch.null for batch in rows]))
    stream = assemble_stream(config)
    ticks = stream.schedule.horizon_ticks(records)
    (planned,) = forecast(stream.learner, [(ticks, records)], draws=64)
    print(f"\nroot mean square error over {len(target):,} flights, in minutes of delay:")
    print(f"  private model       {error(private):6.2f}")
    print(f"  non-private model   {error(best):6.2f}")
    print(f"  constant predictor  {error(constant):6.2f}")
    excess = planned.expected_error - planned.best_error
    print(
        f"the plan, before any data, at {planned.records:,} flights: the noise adds {excess:.2f} "
        f"minutes to the error of the best linear model on made-up flights; here it added "
        f"{error(private) - error(best):.2f}"
    )
    print(f"report: {folder / 'report.html'}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("demo-out"))
    folder: Path = parser.parse_args().out
    # The demo is repeatable: it replaces its own earlier run, and nothing else.
    if (folder / "stream.db").exists():
        shutil.rmtree(folder)
    call("plan", str(CONFIG))
    call("run", str(CONFIG), "--out", str(folder))
    call("verify", str(folder))
    compare(folder)


if __name__ == "__main__":
    main()
