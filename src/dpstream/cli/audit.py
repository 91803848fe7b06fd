"""``dpstream audit``: attack a configuration, one mechanism, or everything."""

import sys
from pathlib import Path

from dpstream.audit.evidence import AuditResult
from dpstream.audit.picture import trade_off_picture
from dpstream.audit.run import audit_all, audit_entry, audit_learner
from dpstream.cli.assemble import assemble_stream
from dpstream.cli.config import load_config
from dpstream.cli.failure import FAILURE
from dpstream.cli.folder import write_public
from dpstream.cli.output import print_json, print_table, print_text
from dpstream.errors import ConfigurationError
from dpstream.report.page import Block, Picture, Text, render_page


def audit(
    config_path: Path | None,
    *,
    mechanism: str | None,
    everything: bool,
    budget: float | None,
    picture: Path | None,
    workers: int,
    as_json: bool,
) -> None:
    """Run the audit that was asked for; exit 1 if anything failed or had no power to tell."""
    if sum((config_path is not None, mechanism is not None, everything)) != 1:
        raise ConfigurationError("give one of: a configuration, --mechanism NAME, --all")
    if budget is not None and budget <= 0:
        raise ConfigurationError(f"--budget is {budget}; give a positive number of seconds")
    if everything:
        report = audit_all(budget_seconds=budget, workers=workers)
        results, passed = list(report.results), report.passed
        found = dict(report.to_json())
        overview = report.picture() if picture is not None and report.fitted else None
    else:
        result = _single(config_path, mechanism, budget)
        results, passed = [result], result.passed
        found = dict(result.to_json())
        overview = None
    if picture is not None:
        write_public(picture, _page(results, overview))
    if as_json:
        print_json(found)
    else:
        _show(results)
    if not passed:
        sys.exit(FAILURE)


def _single(config_path: Path | None, mechanism: str | None, budget: float | None) -> AuditResult:
    if mechanism is not None:
        return audit_entry(mechanism, budget_seconds=budget)
    assert config_path is not None
    learner = assemble_stream(load_config(config_path)).learner
    return audit_learner(learner, budget_seconds=budget)


def _show(results: list[AuditResult]) -> None:
    rows = [
        (
            "ok" if result.passed else "FAIL",
            result.name,
            _number(result, claimed=True),
            _number(result, claimed=False),
            f"{result.seconds:.1f}",
            result.verdict,
        )
        for result in results
    ]
    print_table(("", "part", "claimed", "measured at least", "seconds", "verdict"), rows)
    for result in results:
        for note in result.notes:
            print_text(f"{result.name}: {note}")


def _number(result: AuditResult, *, claimed: bool) -> str:
    evidence = result.evidence
    if evidence is None:
        return "-"
    value = evidence.claimed_epsilon if claimed else evidence.epsilon_lower
    return f"epsilon {value:.3g}"


def _page(results: list[AuditResult], overview: str | None) -> str:
    sections: list[tuple[str, list[Block]]] = []
    if overview is not None:
        told = "Fitted mu over the claimed one, with its interval: 1 is exactly as claimed."
        sections.append(("All Gaussian mechanisms", [Picture(overview, told)]))
    for result in results:
        blocks: list[Block] = [Text(result.verdict)]
        if result.evidence is not None:
            caption = (
                "An attacker's two errors: measured, with a pointwise 95 % band, against the "
                "least that the claim allows."
            )
            blocks.append(Picture(trade_off_picture(result), caption))
        sections.append((f"{result.name}: {'as claimed' if result.passed else 'FAILED'}", blocks))
    return render_page("dpstream: audit", "Attacks on worst-case neighbouring streams", sections)
