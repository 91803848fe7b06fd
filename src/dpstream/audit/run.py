"""The audits by name: one entry of the catalogue, all of them, or a configured learner."""

import multiprocessing
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass
from typing import Any

import numpy as np
from threadpoolctl import ThreadpoolController

from dpstream.audit.entry_learner import LEARNER_AUDITS, SHORT_LEARNERS
from dpstream.audit.evidence import AuditResult, Evidence, judged
from dpstream.audit.gaussian import FALSE_ALARM
from dpstream.audit.learner import learner_evidence, shortened
from dpstream.audit.mechanism import MECHANISM_AUDITS
from dpstream.audit.objective import OBJECTIVE_AUDITS
from dpstream.audit.sampling import SAMPLING_AUDITS
from dpstream.audit.selection import SELECTION_AUDITS
from dpstream.audit.solver import SOLVER_AUDITS
from dpstream.audit.strategy import SHORT_STREAMS, strategy_evidence
from dpstream.catalogue.catalogue import CATALOGUE, entry
from dpstream.catalogue.entry import Entry, Kind
from dpstream.errors import ConfigurationError, DpstreamError
from dpstream.learners.learner import Learner
from dpstream.mechanisms.mechanism import Noise
from dpstream.report.figure import interval_figure

Attack = Callable[[int, Noise], Evidence]
"""Attacks with so many runs of each world, and that noise."""

AUDITED = (Kind.MECHANISM, Kind.STRATEGY, Kind.SOLVER, Kind.LEARNER)
"""What sees data; sets and losses are public mathematics."""

RUNS: Mapping[Kind, int] = {Kind.STRATEGY: 24_000, Kind.MECHANISM: 24_000}
LEARNER_RUNS = 800
_OWN_RUNS: Mapping[str, int] = {
    "measure_spherical_laplace": 10_000,
    "select_exponential": 60_000,
    "choose_held_out": 60_000,
    "poisson_sample": 1200,
    "MomentRegression": 1600,
    "ObjectivePerturbation": 1600,
    "FrankWolfe": 2800,
    "Lasso": 3500,
}
"""Where an attack needs another number of runs for its power than its kind."""

_ATTACKS: Mapping[str, Attack] = {
    **MECHANISM_AUDITS,
    **SAMPLING_AUDITS,
    **SOLVER_AUDITS,
    **SELECTION_AUDITS,
    **OBJECTIVE_AUDITS,
    **LEARNER_AUDITS,
}
_Share = Callable[[int], float | None]
_LEAST_RUNS = 64
_MOST = 4
# Beyond four times the usual runs, more time buys nothing worth having.


@dataclass(frozen=True, kw_only=True)
class AuditReport:
    """The audits of the whole catalogue.

    Attributes:
        results: one for every audited entry.
        seconds: how long all of them took.
    """

    results: Sequence[AuditResult]
    seconds: float

    @property
    def passed(self) -> bool:
        """Whether all of them passed."""
        return all(result.passed for result in self.results)

    def to_json(self) -> Mapping[str, Any]:
        """The report as plain values."""
        return {
            "passed": self.passed,
            "audits": len(self.results),
            "failed": [result.name for result in self.results if not result.passed],
            "false_alarm": min(1.0, FALSE_ALARM * len(self.results)),
            "seconds": round(self.seconds, 3),
            "results": [result.to_json() for result in self.results],
        }

    @property
    def fitted(self) -> bool:
        """Whether there is a fitted mu to picture."""
        return any(each.evidence is not None and each.evidence.fit for each in self.results)

    def picture(self) -> str:
        """An SVG: fitted mu over claimed mu with its interval, for all Gaussian mechanisms."""
        names: list[str] = []
        rows: list[tuple[float, float]] = []
        for result in self.results:
            evidence = result.evidence
            if evidence is None or evidence.fit is None:
                continue
            fit, claimed = evidence.fit, _claimed_mu(evidence)
            names.append(f"{result.name}: fitted mu / claim")
            rows.append((fit.mu / claimed, (fit.upper - fit.lower) / 2 / claimed))
        values = np.array(rows, np.float64).reshape(len(rows), 2)
        return interval_figure(names, values[:, 0], values[:, 1])


def _claimed_mu(evidence: Evidence) -> float:
    return float(np.sqrt(evidence.claim.mu**2 + 2.0 * evidence.claim.rho))


def audited_entries() -> tuple[Entry, ...]:
    """The catalogue's entries that see data."""
    return tuple(found for found in CATALOGUE if found.kind in AUDITED)


def attack_of(name: str) -> Attack | None:
    """The attack on a catalogued part; None if there is none."""
    if name in SHORT_STREAMS:
        return lambda runs, noise: strategy_evidence(name, runs=runs, noise=noise)
    return _ATTACKS.get(name)


def audit_entry(
    name: str, *, budget_seconds: float | None = None, seed: int | None = None
) -> AuditResult:
    """Attack one mechanism, strategy, solver or learner of the catalogue.

    Args:
        name: in the catalogue.
        budget_seconds: how long it may take, about; by default as long as its power needs.
        seed: of insecure noise, for tests; fresh entropy otherwise.

    Raises:
        ConfigurationError: if the name is not in the catalogue, or names a set or a loss.
    """
    found = entry(name)
    if found.kind not in AUDITED:
        raise ConfigurationError(
            f"{name} is a {found.kind.value}: public mathematics that never sees data; audit a "
            "mechanism, strategy, solver or learner"
        )
    attack = attack_of(name)
    if attack is None:
        return AuditResult(
            name=name,
            kind=found.kind.value,
            passed=False,
            verdict="no verdict: no attack on it is known",
            seconds=0.0,
            evidence=None,
        )
    usual = _OWN_RUNS.get(name, RUNS.get(found.kind, LEARNER_RUNS))
    return _timed(name, found.kind.value, attack, usual, budget_seconds, seed, ())


def audit_all(
    *, budget_seconds: float | None = None, seed: int | None = None, workers: int = 1
) -> AuditReport:
    """Attack everything in the catalogue that sees data.

    Args:
        budget_seconds: for all of it, about; an audit that gets too little time to tell
            anything fails and says so.
        seed: of insecure noise, for tests; fresh entropy otherwise.
        workers: how many processes share the audits. They are started afresh, so a script that
            asks for more than one must do so under ``if __name__ == "__main__"``.

    Raises:
        ConfigurationError: if there is no worker.
    """
    if workers < 1:
        raise ConfigurationError(f"workers is {workers}; it must be at least 1")
    start = time.monotonic()

    def share(open_audits: int) -> float | None:
        """The seconds of one audit, of so many that are not finished."""
        if budget_seconds is None:
            return None
        left = max(0.0, budget_seconds - (time.monotonic() - start))
        return left * min(workers, open_audits) / open_audits

    names = [found.name for found in audited_entries()]
    results = _each(names, share, seed) if workers == 1 else _shared(names, share, seed, workers)
    return AuditReport(results=results, seconds=time.monotonic() - start)


def _each(names: Sequence[str], share: _Share, seed: int | None) -> list[AuditResult]:
    return [
        audit_entry(name, budget_seconds=share(len(names) - number), seed=seed)
        for number, name in enumerate(names)
    ]


def _shared(
    names: Sequence[str], share: _Share, seed: int | None, workers: int
) -> list[AuditResult]:
    """The same by several processes; an audit's time is set when it begins."""
    results: dict[str, AuditResult] = {}
    # Never a fork: the parent may hold locks of BLAS threads.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=context) as pool:
        running: set[Future[AuditResult]] = set()
        for number, name in enumerate(names):
            if len(running) == workers:
                finished, running = wait(running, return_when=FIRST_COMPLETED)
                results |= {done.result().name: done.result() for done in finished}
            seconds = share(len(running) + len(names) - number)
            running.add(pool.submit(audit_entry, name, budget_seconds=seconds, seed=seed))
        results |= {done.result().name: done.result() for done in running}
    return [results[name] for name in names]


def audit_learner(
    learner: Learner[Any], *, budget_seconds: float | None = None, seed: int | None = None
) -> AuditResult:
    """Attack a configured learner on worst-case streams made from its public bounds.

    No data are read. A long horizon is replaced by a short one, with the noise calibrated for
    it, and the result says so.

    Args:
        learner: as configured.
        budget_seconds: how long it may take, about.
        seed: of insecure noise, for tests; fresh entropy otherwise.
    """
    short, notes = shortened(learner)
    known = SHORT_LEARNERS.get(type(learner).__name__)
    adaptive = known is not None and known.adaptive

    def attack(runs: int, noise: Noise) -> Evidence:
        return learner_evidence(short, runs=runs, noise=noise, adaptive=adaptive)

    return _timed(learner.name, "stream", attack, LEARNER_RUNS, budget_seconds, seed, notes)


def _timed(
    name: str,
    kind: str,
    attack: Attack,
    usual: int,
    budget_seconds: float | None,
    seed: int | None,
    notes: tuple[str, ...],
) -> AuditResult:
    start = time.monotonic()
    noise = Noise.from_entropy() if seed is None else Noise.insecure(seed)
    try:
        # Two BLAS threads on busy cores are many times slower than one.
        with ThreadpoolController().limit(limits=1):
            runs = usual
            if budget_seconds is not None:
                runs = _affordable(attack, usual, budget_seconds, noise.child("pilot"))
            evidence = attack(runs, noise.child("audit"))
    except DpstreamError as refusal:
        return AuditResult(
            name=name,
            kind=kind,
            passed=False,
            verdict=f"no verdict: {refusal}",
            seconds=time.monotonic() - start,
            evidence=None,
            notes=notes,
        )
    return judged(name, kind, evidence, seconds=time.monotonic() - start, notes=notes)


def _affordable(attack: Attack, usual: int, budget_seconds: float, noise: Noise) -> int:
    """How many runs fit the time, from two short pilots whose outcomes are thrown away."""
    few, more = _LEAST_RUNS, max(2 * _LEAST_RUNS, usual // 16)
    begun = time.monotonic()
    attack(few, noise)
    first = time.monotonic()
    if first - begun > budget_seconds:
        return few
    attack(more, noise)
    second = time.monotonic()
    fixed = first - begun
    each = max(1e-9, (second - first - fixed) / (more - few))
    left = budget_seconds - (second - begun) - fixed
    return int(max(_LEAST_RUNS, min(_MOST * usual, few + left / each)))
