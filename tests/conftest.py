"""What a test run says at its end."""

from typing import Any

CHECKS = {
    "scikit-learn's estimator checks": "test_scikit_learn_check",
    "River's checks": "test_river_check",
}


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Count the foreign checks: passed, failed as expected (with a reason), failed."""
    counted = {
        kind: [report.nodeid for report in terminalreporter.stats.get(kind, [])]
        for kind in ("passed", "xfailed", "skipped", "failed", "error")
    }
    for title, test in CHECKS.items():
        found = {
            kind: sum(f"::{test}[" in name for name in names) for kind, names in counted.items()
        }
        if any(found.values()):
            terminalreporter.write_line(
                f"{title}: "
                + ", ".join(f"{count} {kind}" for kind, count in found.items() if count)
            )
