"""Pictures as inline SVG: curves with bands, and values with error bars.

Drawn here with real text, so that a picture is small, sharp on paper, readable on a phone and by
programs, and needs no library. A picture is a function of its numbers alone.
"""

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dpstream.arrays import FloatArray
from dpstream.report.axis import Axis, fit_axis, mark_text

_COLOURS = ("#1f6feb", "#bc4c00", "#1a7f37", "#8250df", "#bf3989", "#57606a", "#9a6700", "#0a7ea4")
_DASHES = ("", "7 3", "2 3", "9 3 2 3")
_INK, _FAINT = "#24292f", "#57606a"
_WIDTH, _FONT = 440.0, 12.0
_LETTER = 0.6 * _FONT
"""About the width of a letter: text is set by the reader's own font."""

_LINE_HEIGHT = 18.0
_NAME_SHARE = 0.42


@dataclass(frozen=True, kw_only=True)
class Line:
    """One curve, with an optional band around it."""

    x: FloatArray
    y: FloatArray
    lower: FloatArray | None = None
    upper: FloatArray | None = None
    marker: bool = False


@dataclass(frozen=True)
class _Frame:
    """The rectangle between the axes, in the picture's units."""

    left: float
    top: float
    width: float
    height: float
    x: Axis
    y: Axis

    @property
    def bottom(self) -> float:
        return self.top + self.height

    @property
    def right(self) -> float:
        return self.left + self.width

    def across(self, values: FloatArray) -> FloatArray:
        return self.left + self.width * self.x.place(values)

    def down(self, values: FloatArray) -> FloatArray:
        return self.bottom - self.height * self.y.place(values)


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
    levels = dict(references or {})
    xs = [np.asarray(line.x, np.float64).ravel() for line in lines.values()]
    ys = [
        np.asarray(values, np.float64).ravel()
        for line in lines.values()
        for values in (line.y, line.lower, line.upper)
        if values is not None
    ]
    y_axis = fit_axis(_joined([*ys, np.array(list(levels.values()))]), logarithmic=y_log)
    left = 12.0 + _LETTER * max((len(mark_text(mark)) for mark in y_axis.marks()), default=1)
    frame = _Frame(
        left=left,
        top=24.0,
        width=_WIDTH - left - 12.0,
        height=210.0,
        x=fit_axis(_joined(xs), logarithmic=x_log, padded=False),
        y=y_axis,
    )
    parts = [*_grid(frame), *_labels(frame, x_label, y_label)]
    keys: list[tuple[str, str, str]] = []
    for name, level in levels.items():
        at = _number(float(frame.down(np.array([level]))[0]))
        parts.append(
            f'<path d="M{_number(frame.left)} {at}H{_number(frame.right)}" stroke="{_FAINT}" '
            'stroke-dasharray="1 3" fill="none"/>'
        )
        keys.append((name, _FAINT, "1 3"))
    for index, (name, line) in enumerate(lines.items()):
        colour = _COLOURS[index % len(_COLOURS)]
        dash = _DASHES[(index // len(_COLOURS) + index) % len(_DASHES)]
        parts += _curve(frame, line, colour, dash)
        keys.append((name, colour, dash))
    below = frame.bottom + 2 * _LINE_HEIGHT + 4.0
    if len(keys) == 1:
        keys = []
    legend, end = _legend(keys, below)
    return _picture([*parts, *legend], end)


def interval_figure(names: Sequence[str], centres: FloatArray, halves: FloatArray) -> str:
    """Named values with error bars, one below the other, in the order given."""
    middle, half = np.asarray(centres, np.float64), np.asarray(halves, np.float64)
    ends = np.concatenate([middle - half, middle + half, [0.0]])
    shown = [_fitting(name, _NAME_SHARE * _WIDTH) for name in names]
    left = 12.0 + _LETTER * max((len(name) for name in shown), default=1)
    frame = _Frame(
        left=left,
        top=6.0,
        width=_WIDTH - left - 14.0,
        height=_LINE_HEIGHT * max(1, len(names)),
        x=fit_axis(ends),
        y=Axis(0.0, 1.0),
    )
    parts = _marks_below(frame)
    zero = _number(float(frame.across(np.zeros(1))[0]))
    parts.append(
        f'<path d="M{zero} {_number(frame.top)}V{_number(frame.bottom)}" stroke="{_FAINT}" '
        'stroke-dasharray="2 3" fill="none"/>'
    )
    places = frame.across(middle), frame.across(middle - half), frame.across(middle + half)
    for index, name in enumerate(shown):
        at = frame.top + (index + 0.5) * _LINE_HEIGHT
        parts.append(_text(name, frame.left - 6.0, at + 4.0, anchor="end"))
        centre, low, high = (float(place[index]) for place in places)
        if not np.isfinite([centre, low, high]).all():
            continue
        y = _number(at)
        parts.append(
            f'<path d="M{_number(low)} {y}H{_number(high)}M{_number(low)} {_number(at - 3)}v6'
            f'M{_number(high)} {_number(at - 3)}v6" stroke="{_COLOURS[0]}" fill="none"/>'
            f'<circle cx="{_number(centre)}" cy="{y}" r="3" fill="{_COLOURS[0]}"/>'
        )
    return _picture(parts, frame.bottom + _LINE_HEIGHT + 4.0)


def _joined(arrays: Sequence[FloatArray]) -> FloatArray:
    return np.concatenate(arrays) if arrays else np.zeros(0)


def _grid(frame: _Frame) -> list[str]:
    parts = _marks_below(frame)
    marks = frame.y.marks()
    for mark, at in zip(marks, frame.down(np.array(marks)).tolist(), strict=True):
        parts.append(
            f'<path d="M{_number(frame.left)} {_number(at)}H{_number(frame.right)}" '
            'stroke="#e4e8ec" fill="none"/>'
        )
        parts.append(_text(mark_text(mark), frame.left - 5.0, at + 4.0, anchor="end"))
    return parts


def _marks_below(frame: _Frame) -> list[str]:
    left, bottom, right = (_number(v) for v in (frame.left, frame.bottom, frame.right))
    parts = [f'<path d="M{left} {bottom}H{right}" stroke="{_FAINT}" fill="none"/>']
    marks, until = frame.x.marks(), -np.inf
    for mark, at in zip(marks, frame.across(np.array(marks)).tolist(), strict=True):
        text = mark_text(mark)
        half = 0.5 * _LETTER * len(text)
        if at - half < until:  # it would run into the one before
            continue
        until = at + half + 4.0
        parts.append(
            f'<path d="M{_number(at)} {bottom}v4" stroke="{_FAINT}" fill="none"/>'
            + _text(text, min(at, _WIDTH - half), frame.bottom + 16.0, anchor="middle")
        )
    return parts


def _labels(frame: _Frame, x_label: str, y_label: str) -> list[str]:
    middle = frame.left + frame.width / 2
    return [
        _text(_fitting(y_label, _WIDTH), 4.0, 13.0, colour=_FAINT),
        _text(
            _fitting(x_label, frame.width),
            middle,
            frame.bottom + 32.0,
            anchor="middle",
            colour=_FAINT,
        ),
    ]


def _curve(frame: _Frame, line: Line, colour: str, dash: str) -> list[str]:
    x = frame.across(np.asarray(line.x, np.float64).ravel())
    parts: list[str] = []
    if line.lower is not None and line.upper is not None:
        low = frame.down(np.asarray(line.lower, np.float64).ravel())
        high = frame.down(np.asarray(line.upper, np.float64).ravel())
        for piece in _whole_pieces(x, low, high):
            there = np.column_stack([x[piece], low[piece]])
            back = np.column_stack([x[piece], high[piece]])[::-1]
            points = _points(np.concatenate([_thinned(there), _thinned(back)]))
            parts.append(f'<path d="M{points}Z" fill="{colour}" fill-opacity="0.14"/>')
    y = frame.down(np.asarray(line.y, np.float64).ravel())
    stroke = f' stroke-dasharray="{dash}"' if dash else ""
    for piece in _whole_pieces(x, y):
        points = _thinned(np.column_stack([x[piece], y[piece]]))
        parts.append(
            f'<path d="M{_points(points)}" stroke="{colour}" stroke-width="1.7"{stroke} '
            'stroke-linejoin="round" fill="none"/>'
        )
        if line.marker or len(points) == 1:
            parts += [
                f'<circle cx="{_number(a)}" cy="{_number(b)}" r="3" fill="{colour}"/>'
                for a, b in points.tolist()
            ]
    return parts


def _whole_pieces(*arrays: FloatArray) -> list[slice]:
    """The longest stretches in which every array has numbers."""
    known = np.isfinite(np.array(arrays)).all(axis=0)
    edges = np.flatnonzero(np.diff(np.concatenate([[False], known, [False]]).astype(np.int8)))
    return [
        slice(start, stop)
        for start, stop in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True)
    ]


def _thinned(points: FloatArray) -> FloatArray:
    """Of the points in one half unit of width only the first, lowest, highest and last."""
    if len(points) < 2 * _WIDTH:
        return points
    column = np.round(2.0 * points[:, 0]).astype(np.int64)
    starts = np.flatnonzero(np.diff(column, prepend=column[0] - 1))
    kept: list[int] = []
    for start, stop in zip(starts.tolist(), [*starts[1:].tolist(), len(points)], strict=True):
        heights = points[start:stop, 1]
        inner = {start, start + int(heights.argmin()), start + int(heights.argmax()), stop - 1}
        kept += sorted(inner)
    return points[kept]


def _legend(keys: Sequence[tuple[str, str, str]], top: float) -> tuple[list[str], float]:
    parts: list[str] = []
    x, y = 4.0, top
    for whole, colour, dash in keys:
        name = _fitting(whole, _WIDTH - 48.0)
        room = 34.0 + _LETTER * len(name) + 10.0
        if x > 4.0 and x + room > _WIDTH:
            x, y = 4.0, y + _LINE_HEIGHT
        stroke = f' stroke-dasharray="{dash}"' if dash else ""
        parts.append(
            f'<path d="M{_number(x)} {_number(y + 8)}h26" stroke="{colour}" stroke-width="2"'
            f'{stroke} fill="none"/>' + _text(name, x + 32.0, y + 12.0)
        )
        x += room
    return parts, y + _LINE_HEIGHT if parts else top


def _picture(parts: Sequence[str], height: float) -> str:
    size = f"{_number(_WIDTH)} {_number(np.ceil(height))}"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size}" '
        f'font-family="system-ui, sans-serif" font-size="{_number(_FONT)}" '
        f'style="background:#fff">{"".join(parts)}</svg>'
    )


def _text(text: str, x: float, y: float, *, anchor: str = "start", colour: str = _INK) -> str:
    place = "" if anchor == "start" else f' text-anchor="{anchor}"'
    return (
        f'<text x="{_number(x)}" y="{_number(y)}"{place} fill="{colour}">{html.escape(text)}</text>'
    )


def _fitting(text: str, room: float) -> str:
    """The text, cut where it would not fit."""
    most = int(room / (1.15 * _LETTER))
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _points(points: FloatArray) -> str:
    return "L".join(f"{_number(x)} {_number(y)}" for x, y in points.tolist())


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
