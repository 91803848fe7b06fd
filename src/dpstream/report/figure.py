"""Pictures as inline SVG. The only module that knows matplotlib.

Text stays text, so that a picture is sharp on paper and can be read on a phone and by programs;
identifiers are each picture's own, so that many may stand on one page. A picture is a function of
its numbers alone. Without matplotlib a picture says in its place what would show it.
"""

import io
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import numpy as np

from dpstream.arrays import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_COLOURS = ("#1f6feb", "#bc4c00", "#1a7f37", "#8250df", "#bf3989", "#57606a", "#9a6700", "#0a7ea4")
_DASHES = ("-", "--", ":", "-.")
_INK, _FAINT, _GRID = "#24292f", "#57606a", "#e4e8ec"
_WIDTH, _FONT = 6.1, 12.0
_LETTER = 0.6 * _FONT / 72.0
"""About the width of a letter, in inches."""

_KEY = 0.65
"""The width of a line's sample in the legend, with its margins, in inches."""

_LINE_HEIGHT = 0.25
_NAME_SHARE = 0.42
_STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "dpstream",
    "font.size": _FONT,
    "text.color": _INK,
    "axes.edgecolor": _FAINT,
    "axes.labelcolor": _FAINT,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": _FONT,
    "axes.titlecolor": _FAINT,
    "axes.titlelocation": "left",
    "axes.formatter.limits": (-3, 5),
    "axes.formatter.useoffset": False,
    "axes.formatter.use_mathtext": False,
    "axes.axisbelow": True,
    "grid.color": _GRID,
    "xtick.color": _INK,
    "ytick.color": _INK,
    "legend.frameon": False,
}
_ABSENT = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 440 48" '
    'font-family="system-ui, sans-serif" font-size="15">'
    f'<text x="4" y="28" fill="{_INK}">No picture: install dpstream[report], which draws it.'
    "</text></svg>"
)


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
    names = [_fitting(name, _WIDTH - _KEY) for name in (*lines, *(references or {}))]
    widest = _KEY + _LETTER * max(map(len, names), default=0)
    columns = max(1, int(_WIDTH / widest))
    key_rows = math.ceil(len(names) / columns) if len(names) > 1 else 0

    def draw(figure: "Figure", axes: "Axes") -> None:
        keys = iter(names)
        for index, line in enumerate(lines.values()):
            colour = _COLOURS[index % len(_COLOURS)]
            style = _DASHES[(index // len(_COLOURS) + index) % len(_DASHES)]
            marker = "o" if line.marker or len(line.x) == 1 else None
            axes.plot(
                line.x, line.y, style, color=colour, label=next(keys), marker=marker, ms=5, lw=1.7
            )
            if line.lower is not None and line.upper is not None:
                axes.fill_between(line.x, line.lower, line.upper, color=colour, alpha=0.14, lw=0)
        for level in (references or {}).values():
            axes.axhline(level, color=_FAINT, lw=1, ls=":", label=next(keys))
        if x_log:
            axes.set_xscale("log")
        if y_log:
            axes.set_yscale("log")
        axes.set_title(_fitting(y_label, _WIDTH))
        axes.set_xlabel(_fitting(x_label, _WIDTH))
        axes.grid(visible=True, axis="y")
        if key_rows:
            figure.legend(loc="outside lower left", ncols=columns)

    return _drawn(draw, height=3.4 + _LINE_HEIGHT * key_rows)


def interval_figure(names: Sequence[str], centres: FloatArray, halves: FloatArray) -> str:
    """Named values with error bars, one below the other, in the order given."""

    def draw(figure: "Figure", axes: "Axes") -> None:
        del figure
        positions = np.arange(len(names), 0, -1)
        axes.axvline(0.0, color=_FAINT, lw=1, ls=":")
        axes.errorbar(centres, positions, xerr=halves, fmt="o", color=_COLOURS[0], ms=5, capsize=3)
        shown = [_fitting(name, _NAME_SHARE * _WIDTH) for name in names]
        axes.set_yticks(positions, shown)
        axes.set_ylim(0.4, len(names) + 0.6)

    return _drawn(draw, height=0.6 + _LINE_HEIGHT * max(1, len(names)))


def _drawn(draw: Callable[["Figure", "Axes"], None], *, height: float) -> str:
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ImportError:
        return _ABSENT
    with matplotlib.rc_context(_STYLE):
        figure = Figure(figsize=(_WIDTH, height), layout="constrained")
        draw(figure, figure.add_subplot())
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    return _inline(buffer.getvalue())


def _inline(document: str) -> str:
    """The picture of an SVG document, for a page that holds others."""
    text = re.sub(r"^.*?(?=<svg)", "", document, count=1, flags=re.DOTALL)
    text = re.sub(
        r"<metadata>.*?</metadata>|<style.*?</style>|<!--.*?-->", "", text, flags=re.DOTALL
    )
    text = re.sub(r'<g id="[^"]*">', "<g>", text)
    text = text.replace("<svg ", '<svg stroke-linejoin="round" ', 1)
    own = blake2b(text.encode(), digest_size=6).hexdigest()
    return re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>p{own}-", text)


def _fitting(text: str, room: float) -> str:
    """The text, cut where it would not fit."""
    most = int(room / _LETTER)
    return text if len(text) <= most else f"{text[: most - 1]}…"
