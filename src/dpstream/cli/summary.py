"""A released model in a few lines for people."""

from collections.abc import Mapping, Sequence
from typing import Any

from dpstream.report.page import format_number

_SHOWN = 12


def describe_model(model: Mapping[str, Any]) -> list[str]:
    """The model's numbers with their standard errors, in the user's units."""
    if model["kind"] == "linear":
        lines: list[str] = []
        for target in model["targets"]:
            lines.append(f"coefficients for {target['name']} (standard error):")
            lines += _coefficients(model["features"], target["user"])
        return lines
    if model["kind"] == "scores":
        return _scores(model)
    values = model.get("user", model["scaled"])
    error = values["standard_error"]
    errors = error if isinstance(error, list) else [error] * len(values["sum"])
    return _lines(model["features"], values["sum"], errors)


def _scores(model: Mapping[str, Any]) -> list[str]:
    if not model.get("ready", True):
        return ["no model yet: nothing was fitted so far"]
    names, user = [*model["features"], "(intercept)"], model["user"]
    lines: list[str] = []
    for target, slopes, head in zip(
        model["targets"], user["coefficients"], user["intercept"], strict=True
    ):
        lines.append(f"coefficients for {target}, {model['loss']} loss:")
        values = [*slopes, head]
        lines += _lines(names, values, [None] * len(values))
    return lines


def _coefficients(features: Sequence[str], user: Mapping[str, Any]) -> list[str]:
    slopes = user["coefficients"]
    errors = slopes.get("total_standard_error") or [None] * len(features)
    lines = _lines(features, slopes["estimate"], errors)
    if user["intercept"] is not None:
        head = user["intercept"]
        lines += _lines(["(intercept)"], [head["estimate"]], [head.get("total_standard_error")])
    return lines


def _lines(
    names: Sequence[str], values: Sequence[float], errors: Sequence[float | None]
) -> list[str]:
    width = max((len(name) for name in names[:_SHOWN]), default=0)
    lines = [
        f"  {name.ljust(width)}  {format_number(value)}"
        + ("" if error is None else f" ({format_number(error)})")
        for name, value, error in zip(names[:_SHOWN], values, errors, strict=False)
    ]
    if len(names) > _SHOWN:
        lines.append(f"  ... and {len(names) - _SHOWN} more, in the model file")
    return lines
