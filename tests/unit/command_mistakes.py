"""The folder in which the commands of ``mistakes_commands.toml`` are tried."""

import json
import shutil
from pathlib import Path

import command_line
from command_line import call

from dpstream.mechanisms.public import public_generator

GOOD = command_line.GOOD.replace("horizon = 8", "horizon = 4")


def prepared(folder: Path) -> None:
    """Right and wrong configurations and records, a run, and runs that were damaged."""
    generator = public_generator(3)
    lines = [f"{generator.uniform():.4f},{'xy'[n % 2]},{n % 3 / 2:.4f}" for n in range(300)]
    header = "a,b,t"
    files = {
        "good.toml": GOOD,
        "other.toml": GOOD.replace("epsilon = 1.0", "epsilon = 2.0"),
        "half.toml": GOOD[: len(GOOD) // 2],
        "text.toml": GOOD.replace("epsilon = 1.0", 'epsilon = "1.0"'),
        "wrong.toml": GOOD.replace("[learner]", "[lerner]"),
        "rows.csv": "\n".join([header, *lines[:120]]) + "\n",
        "long.csv": "\n".join([header, *lines]) + "\n",
        "words.csv": "\n".join([header, *lines[:60], "secret,x,1.0"]) + "\n",
        "narrow.csv": "\n".join(["a,b", *(line.rpartition(",")[0] for line in lines[:60])]) + "\n",
        "short.csv": "\n".join([header, *lines[:60], "0.5,x"]) + "\n",
    }
    for name, text in files.items():
        (folder / name).write_text(text)
    done = call("run", "good.toml", "--input", "rows.csv", folder=folder)
    assert done.returncode == 0, done.stderr
    (folder / "empty").mkdir()
    for name in ("cut", "edited"):
        shutil.copytree(folder / "out", folder / name)
    store = folder / "cut" / "stream.db"
    store.write_bytes(store.read_bytes()[: store.stat().st_size // 2])
    log = folder / "edited" / "releases.jsonl"
    first = json.loads(log.read_text().splitlines()[0])
    first["guarantee"]["epsilon"] = 0.1
    log.write_text(json.dumps(first) + "\n")
