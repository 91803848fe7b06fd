"""Every learner of the catalogue is killed, and goes on to the history it would have had."""

import signal
from pathlib import Path

import pytest

from dpstream.catalogue.catalogue import entries
from dpstream.catalogue.entry import Kind
from dpstream.stores.encryption import default_key
from dpstream.stores.verification import verify_store
from dpstream.testing import small_learner, small_window
from dpstream.testing.crash import LOG, STORE, run_to_end, start_run

TICKS = 6
SEED = 5
QUICK = ("regression", "leader")
SLOW = ("sums", "expiring", "projected", "refits", "chosen", "perturbed")
WINDOWS = ("chains", "decayed", "sparse", "cumulative", "basic", "resolutions", "regression")
"""Killed in ``test_crash_window``."""


def test_every_learner_of_the_catalogue_is_killed() -> None:
    killed = {
        type(getattr(module, kind)(ticks=TICKS, insecure_seed=SEED)[0].learner).__name__
        for module, kinds in ((small_learner, (*QUICK, *SLOW)), (small_window, WINDOWS))
        for kind in kinds
    }
    assert killed == {entry.attribute for entry in entries(Kind.LEARNER)}


@pytest.mark.parametrize("kind", [*QUICK, *(pytest.param(k, marks=pytest.mark.slow) for k in SLOW)])
def test_a_killed_learner_goes_on_to_the_same_history(kind: str, tmp_path: Path) -> None:
    made = f"{small_learner.__name__}:{kind}"
    plain, killed = tmp_path / "plain", tmp_path / "killed"
    plain.mkdir()
    killed.mkdir()
    steps = run_to_end(plain, ticks=TICKS, sizes=(7, 25), insecure_seed=SEED, made_by=made)
    history = (plain / LOG).read_bytes()
    assert history.count(b"\n") == steps.count("committed") == TICKS
    # Within the first transaction, with noise drawn and nothing kept, and between two releases.
    places = [
        [number for number, name in enumerate(steps, 1) if name == step][turn]
        for step, turn in (("state written", 1), ("measured", 2), ("durable", 1), ("learned", 1))
    ]
    for fatal in places:
        process = start_run(
            killed, ticks=TICKS, sizes=(11,), insecure_seed=SEED, made_by=made, fatal_step=fatal
        )
        process.join()
        assert process.exitcode in (-signal.SIGKILL, 0)
        shown = (killed / LOG).read_bytes() if (killed / LOG).exists() else b""
        assert history.startswith(shown)
    run_to_end(killed, ticks=TICKS, sizes=(4, 9), insecure_seed=SEED, made_by=made)
    assert (killed / LOG).read_bytes() == history
    found = verify_store(killed / STORE, published=killed / LOG, keys=default_key(killed))
    assert found.passed, found.checks
    assert found.spent == pytest.approx(1.0, rel=1e-6)
