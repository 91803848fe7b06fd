"""How every test draws its examples, and what a test run says at its end."""

from typing import Any

import hypothesis

# The same examples in every run: a run cannot turn red by chance, nor green.
hypothesis.settings.register_profile("dpstream", derandomize=True, database=None, deadline=None)
# The runner of mutants has loaded its own before pytest starts.
if hypothesis.settings.get_current_profile_name() != "mutation":
    hypothesis.settings.load_profile("dpstream")

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
