"""Pictures as inline SVG. The only module that knows matplotlib."""

import io
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dpstream.arrays import FloatArray
from dpstream.errors import ConfigurationError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_COLOURS = ("#1f6feb", "#bc4c00", "#1a7f37", "#8250df", "#bf3989", "#6e7781", "#9a6700", "#0a7ea4")
_DASHES = ("-", "--", "-.", ":")


@dataclass(frozen=True, kw_only=True)
class Line:
    """One curve, with an optional band around it."""

    x: FloatArray
    y: FloatArray
    lower: FloatArray | None = None
    upper: FloatArray | None = None
    marker: bool = False


def line_figure(
    lines: Mapping[str, Line],
    *,
    x_label: str,
    y_label: str,
    x_log: bool = False,
    y_log: bool = False,
    references: Mapping[str, float] | None = None,
) -> str:
    """Curves with bands on one pair of axes, told apart by colour and dash."""
    axes, finish = _axes(x_label, y_label)
    for index, (name, line) in enumerate(lines.items()):
        colour = _COLOURS[index % len(_COLOURS)]
        style = _DASHES[(index // len(_COLOURS) + index) % len(_DASHES)]
        mark = "o" if line.marker else None
        axes.plot(line.x, line.y, style, color=colour, label=name, marker=mark, markersize=4)
        if line.lower is not None and line.upper is not None:
            axes.fill_between(line.x, line.lower, line.upper, color=colour, alpha=0.15, lw=0)
    for name, level in (references or {}).items():
        axes.axhline(level, color="#57606a", lw=1, ls=":", label=name)
    if x_log:
        axes.set_xscale("log")
    if y_log:
        axes.set_yscale("log")
    if len(lines) + len(references or {}) > 1:
        axes.legend(frameon=False, fontsize=8, ncols=2)
    return finish()


def interval_figure(names: Sequence[str], centres: FloatArray, halves: FloatArray) -> str:
    """Named values with error bars, one below the other, in the order given."""
    axes, finish = _axes("value", "", height=max(1.6, 0.28 * len(names) + 0.8))
    positions = list(range(len(names), 0, -1))
    axes.errorbar(centres, positions, xerr=halves, fmt="o", color=_COLOURS[0], ms=4, capsize=2)
    axes.axvline(0.0, color="#57606a", lw=1, ls=":")
    axes.set_yticks(positions, list(names))
    return finish()


def _axes(x_label: str, y_label: str, height: float = 3.4) -> "tuple[Axes, Callable[[], str]]":
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ImportError:
        raise ConfigurationError(
            "pictures need matplotlib: install dpstream[report], or turn the report off "
            "with [output] report = false"
        ) from None
    # A fixed salt makes the picture a function of its numbers alone.
    matplotlib.rcParams["svg.hashsalt"] = "dpstream"
    figure = Figure(figsize=(7.2, height), layout="constrained")
    axes: Axes = figure.add_subplot()
    axes.set_xlabel(x_label)
    axes.set_ylabel(y_label)
    axes.spines[["top", "right"]].set_visible(False)

    def finish() -> str:
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
        text = buffer.getvalue()
        return re.sub(r"^.*?(?=<svg)", "", text, count=1, flags=re.DOTALL)

    return axes, finish
