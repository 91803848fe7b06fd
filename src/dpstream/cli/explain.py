"""``dpstream explain``: what a guarantee means, in plain sentences and an attacker's best odds."""

from pathlib import Path

from dpstream.cli.assemble import assemble_stream
from dpstream.cli.config import load_config
from dpstream.cli.folder import write_public
from dpstream.cli.output import print_json, print_table, print_text
from dpstream.errors import ConfigurationError
from dpstream.privacy.bounds import curve_of
from dpstream.privacy.budget import Budget
from dpstream.privacy.curve import PrivacyCurve
from dpstream.privacy.unit import Neighbours, Unit
from dpstream.report.explanation import Explanation, explanation_page


def explain(
    config_path: Path | None,
    *,
    epsilon: float | None,
    delta: float | None,
    neighbours: str,
    cap: int | None,
    picture: Path | None,
    as_json: bool,
) -> None:
    """Explain a configuration's guarantee, or one given by numbers."""
    if (config_path is None) == (epsilon is None):
        raise ConfigurationError(
            "give a configuration, or --epsilon (with --delta, which is 0 if left out)"
        )
    if config_path is not None and (delta is not None or cap is not None):
        raise ConfigurationError(
            f"--delta and --cap go with --epsilon; {config_path} declares its own"
        )
    if config_path is not None:
        explained = explain_configuration(config_path)
    else:
        assert epsilon is not None
        explained = explain_numbers(epsilon, delta or 0.0, neighbours=neighbours, cap=cap)
    if picture is not None:
        write_public(picture, explanation_page(explained))
    if as_json:
        print_json(explained.to_json())
        return
    budget = explained.budget
    print_text(
        f"epsilon {budget.epsilon:g}, delta {budget.delta:g}, {explained.neighbours.value}; "
        f"hidden: {explained.whose}",
        "",
        *explained.sentences(),
        "",
        explained.bar(),
        "",
    )
    print_table(
        (f"{explained.unit.kind}s that are one person's", "an attacker is right, of 100"),
        [(str(count), f"{100 * share:.1f}") for count, share in explained.groups()],
    )
    if picture is not None:
        print_text("", f"picture: {picture}")


def explain_configuration(path: Path) -> Explanation:
    """By the learner's own events where they cover its life; by the budget alone otherwise."""
    learner = assemble_stream(load_config(path)).learner
    curve = PrivacyCurve.none()
    for event in learner.opening_events():
        curve = curve.compose(curve_of(event))
    exact = curve != PrivacyCurve.none()
    return Explanation(
        budget=learner.budget,
        unit=learner.unit,
        neighbours=learner.neighbours,
        curve=curve if exact else _of_budget(learner.budget),
        exact=exact,
        promise=learner.promise.value,
    )


def explain_numbers(
    epsilon: float, delta: float, *, neighbours: str, cap: int | None
) -> Explanation:
    """By epsilon and delta alone, whatever the mechanism."""
    kinds = [item.value for item in Neighbours]
    if neighbours not in kinds:
        raise ConfigurationError(f"--neighbours is {neighbours!r}; give {' or '.join(kinds)}")
    budget = Budget(epsilon=epsilon, delta=delta)
    unit = Unit() if cap is None else Unit(kind="user", cap=cap, column="user")
    return Explanation(
        budget=budget,
        unit=unit,
        neighbours=Neighbours(neighbours),
        curve=_of_budget(budget),
        exact=False,
    )


def _of_budget(budget: Budget) -> PrivacyCurve:
    return PrivacyCurve.approximate(budget.epsilon, budget.delta)
