"""Online logistic learners side by side: this project's, and what else can be installed.

One command, one run, the same streams, one judge:

    python benchmarks/online_peers.py

The streams are those of ``dpstream bench online``: 500,000 records, d = 54, at (1, 1e-6) against
nulling one record. Every learner hands back the model that it would have had in force at each
public tick; the judge takes the mean log-loss of each record at the model in force before it, less
that of the best fixed model of the whole stream, which is found without privacy.

Peers run in an environment of their own, made by ``venv`` and filled from ``peers.txt`` (with
``--torch`` also from ``peers-torch.txt``): in a temporary folder that is removed at the end, or in
``--environment FOLDER``, which is kept and used again. The project's environment is left alone.
What each peer is, how its noise is set, and which of its settings were chosen with hindsight, its
script in ``peers/`` says; hindsight is given to peers only.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from dpstream.arrays import FloatArray
from dpstream.bench.online import (
    BUDGET,
    NO_PRIVACY,
    AdmittedStream,
    best_fixed_loss,
    leader,
    logistic_stream,
)
from dpstream.learners.learner import Tick
from dpstream.mechanisms.mechanism import Noise
from dpstream.privacy.budget import Budget

HERE = Path(__file__).resolve().parent
FIRST_SEED = 100
TARGET = 0.0030
"""The excess that the project promises for its own learner."""

PEERS = ("diffprivlib_refits", "jax_privacy_ftrl", "river_adagrad")
TORCH_PEERS = ("opacus_pass",)

OURS: Mapping[str, tuple[Budget, Mapping[str, Any]]] = {
    "dpstream FollowTheLeader": (BUDGET, {}),
    "dpstream FollowTheLeader, no horizon": (BUDGET, {"horizon": None}),
    "dpstream FollowTheLeader, gradients alone": (BUDGET, {"curvature": "none"}),
    "dpstream FollowTheLeader, without privacy": (NO_PRIVACY, {}),
}


def our_points(stream: AdmittedStream, budget: Budget, seed: int, **settings: Any) -> FloatArray:
    """The model in force at each tick; every setting that is not named is the default."""
    learner = leader(stream, budget, **settings)
    state, noise, start = learner.init(), Noise.insecure(seed), 0
    points: list[FloatArray] = []
    for number, stop in enumerate(stream.ends, start=1):
        points.append(state.point[0])
        tick = Tick(number=number, records=stop)
        learner.learn(state, stream.batch.slice(start, stop))
        learner.close(state, tick)
        learner.release(state, tick, noise)
        start = stop
    return np.array(points)


def mean_loss(stream: AdmittedStream, points: FloatArray) -> float:
    """Mean log-loss of every record at the model in force before it: the one judge."""
    if points.shape != (len(stream.ends), stream.batch.dimension) or not np.isfinite(points).all():
        raise ValueError(f"a learner handed back models of shape {points.shape}, or not finite")
    features, targets = stream.batch.scaled_features, stream.batch.scaled_targets[:, 0]
    total, start = 0.0, 0
    for point, stop in zip(points, stream.ends, strict=True):
        margins = targets[start:stop] * (features[start:stop] @ point)
        total += float(np.logaddexp(0.0, -margins).sum())
        start = stop
    return total / len(targets)


def make_environment(folder: Path, *, torch: bool) -> Path:
    """Its interpreter; what is there already stays."""
    if folder.resolve() == Path(sys.prefix).resolve():
        raise SystemExit(f"{folder} is the project's own environment; choose another folder")
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    if not python.exists():
        venv.create(folder, with_pip=True)
    wanted = [HERE / "peers.txt", *([HERE / "peers-torch.txt"] if torch else [])]
    files = [argument for file in wanted for argument in ("-r", str(file))]
    run = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *files]
    subprocess.run(run, check=True, env=own_environment())
    return python


def own_environment() -> dict[str, str]:
    """Of a peer's process: nothing of the project on its path, one thread."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return kept | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


def peer_points(python: Path, peer: str, stream: Path, seed: int) -> dict[str, FloatArray]:
    """The models in force at each tick, by the name of each of a peer's variants."""
    out = stream / f"{peer}.npz"
    command = [str(python), str(HERE / "peers" / f"{peer}.py"), str(stream), str(out), str(seed)]
    done = subprocess.run(command, env=own_environment(), capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{peer} failed:\n{done.stderr[-3000:]}")
    with np.load(out) as found:
        return {name: np.asarray(found[name], np.float64) for name in found.files}


def keep_stream(stream: AdmittedStream, folder: Path) -> None:
    """What a peer reads: admitted features, labels of -1 and 1, and the ends of ticks."""
    np.save(folder / "features.npy", stream.batch.scaled_features)
    np.save(folder / "labels.npy", stream.batch.scaled_targets[:, 0])
    np.save(folder / "ends.npy", np.array(stream.ends))


def one_draw(
    seed: int, records: int, python: Path, peers: tuple[str, ...]
) -> tuple[dict[str, float], dict[str, float]]:
    """Excess and seconds of every learner on one stream."""
    stream = logistic_stream(FIRST_SEED + seed, records=records)
    best = best_fixed_loss(stream)
    excess: dict[str, float] = {}
    seconds: dict[str, float] = {}
    for name, (budget, settings) in OURS.items():
        begun = time.perf_counter()
        points = our_points(stream, budget, seed, **settings)
        seconds[name] = time.perf_counter() - begun
        excess[name] = mean_loss(stream, points) - best
    with tempfile.TemporaryDirectory() as held:
        folder = Path(held)
        keep_stream(stream, folder)
        for peer in peers:
            begun = time.perf_counter()
            found = peer_points(python, peer, folder, seed)
            seconds[peer] = time.perf_counter() - begun
            for name, points in found.items():
                excess[name] = mean_loss(stream, points) - best
    return excess, seconds


def summary(values: list[float]) -> dict[str, float]:
    """Mean over draws, its standard error, and how many there were."""
    spread = float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
    return {
        "mean": float(np.mean(values)),
        "standard error": spread / float(np.sqrt(len(values))),
        "draws": len(values),
    }


def main() -> None:
    """Run it and print the table."""
    parser = argparse.ArgumentParser(description="online learners and their peers, in one run")
    parser.add_argument("--draws", type=int, default=8, help="of stream and noise (8)")
    parser.add_argument("--peer-draws", type=int, help="run peers on so many of them (all)")
    parser.add_argument("--records", type=int, default=500_000, help="of each stream (500,000)")
    parser.add_argument("--environment", type=Path, help="kept folder of the peers' environment")
    parser.add_argument("--torch", action="store_true", help="run peers that need PyTorch, too")
    parser.add_argument("--out", type=Path, help="a file for the figures as JSON")
    given = parser.parse_args()
    kept: Path | None = given.environment
    folder = kept or Path(tempfile.mkdtemp(prefix="peers-"))
    try:
        python = make_environment(folder, torch=given.torch)
        peers = PEERS + (TORCH_PEERS if given.torch else ())
        drawn = given.draws if given.peer_draws is None else given.peer_draws
        draws = [
            one_draw(seed, given.records, python, peers if seed < drawn else ())
            for seed in range(given.draws)
        ]
    finally:
        if kept is None:
            shutil.rmtree(folder, ignore_errors=True)
    figures: dict[str, Any] = {"records": given.records, "draws": given.draws, "target": TARGET}
    figures["excess"] = {
        name: summary([excess[name] for excess, _ in draws if name in excess])
        for name in draws[0][0]
    }
    figures["seconds per stream"] = {
        name: float(np.mean([seconds[name] for _, seconds in draws if name in seconds]))
        for name in draws[0][1]
    }
    print(f"{'log-loss above the best fixed model':58s}     mean  standard error  draws")
    for name, value in figures["excess"].items():
        print(
            f"{name:58s} {value['mean']:8.5f}         {value['standard error']:.5f}"
            f"  {value['draws']:5d}"
        )
    reached = figures["excess"]["dpstream FollowTheLeader"]["mean"] <= TARGET
    print(f"target {TARGET:.4f}: {'reached' if reached else 'not reached'}")
    if given.out is not None:
        given.out.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
