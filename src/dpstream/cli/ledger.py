"""``dpstream ledger`` and ``dpstream verify``: what was spent, and whether it adds up."""

import sys
from pathlib import Path

from dpstream.cli.failure import FAILURE
from dpstream.cli.folder import RunFolder
from dpstream.cli.output import print_json, print_table, print_text
from dpstream.cli.published import published_checks
from dpstream.privacy.ledger import Ledger
from dpstream.report.run import event_words
from dpstream.stores.sqlite import SqliteStore
from dpstream.stores.verification import Verification, declared, verify_store


def ledger(folder_path: Path, *, as_json: bool) -> None:
    """Show the ledger of a run's folder."""
    folder = RunFolder(folder_path)
    folder.require_store()
    store = SqliteStore(folder.store, read_only=True)
    try:
        identity = store.identity() or {}
        budget, unit = declared(identity)
        kept = Ledger.from_rows(store.ledger(), budget=budget, unit=unit)
        last = store.last_release()
    finally:
        store.close()
    spent = kept.spent().epsilon(budget.delta)
    log_head = None if last is None else last.digest.hex()
    if as_json:
        print_json(
            {
                "budget": {"epsilon": budget.epsilon, "delta": budget.delta},
                "epsilon_spent": spent,
                "head": kept.head,
                "log_head": log_head,
                "rows": [row.to_json() for row in kept.rows],
            }
        )
        return
    print_text(
        f"unit: {unit.kind}, at most {unit.cap} record{'s' if unit.cap > 1 else ''}; "
        f"neighbours: {identity.get('neighbours')}",
        f"spent: epsilon {spent:.6g} of {budget.epsilon:.6g} at delta {budget.delta:.3g}",
        f"head: {kept.head}",
        f"head of the log: {log_head or 'none, nothing is published yet'}",
    )
    rows = [(str(row.index), *event_words(row.event)) for row in kept.rows]
    print_table(("row", "event", "parameters"), rows)


def verify(folder_path: Path, *, head: str | None, as_json: bool) -> None:
    """Recompute what a run's folder claims; exit 1 if anything is not as claimed.

    All files but the page for people are compared with the store.
    """
    folder = RunFolder(folder_path)
    folder.require_store()
    published = folder.releases if folder.releases.exists() else None
    found = verify_store(folder.store, published=published)
    store = SqliteStore(folder.store, read_only=True)
    try:
        every = [*found.checks, *published_checks(folder, store)]
    finally:
        store.close()
    checks = [
        {"name": check.name, "passed": check.passed, "detail": check.detail} for check in every
    ]
    passed = all(check.passed for check in every)
    if head is not None:
        check = _kept_head(head, found)
        passed = passed and bool(check["passed"])
        checks.append(check)
    if as_json:
        print_json({"passed": passed, "epsilon_spent": found.spent, "checks": checks})
    else:
        for check in checks:
            mark = "ok  " if check["passed"] else "FAIL"
            print_text(f"{mark} {check['name']}: {check['detail']}")
    if not passed:
        sys.exit(FAILURE)


def _kept_head(head: str, found: Verification) -> dict[str, str | bool]:
    """Whether a head that was noted elsewhere is part of what the store now holds."""
    if head in found.log_heads:
        detail = f"is that of release {found.log_heads.index(head) + 1} of {found.releases}"
    elif head in found.heads:
        detail = (
            "is the ledger's, which changes with charges and not with releases: it says nothing of "
            "a log that was rolled back; keep the head of the log"
        )
    else:
        detail = "is not in the chain: the store was rolled back or belongs to another stream"
    held = head in found.log_heads or head in found.heads
    return {"name": "head kept elsewhere", "passed": held, "detail": detail}
