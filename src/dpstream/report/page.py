"""One HTML page with everything inside: no scripts, no fonts or pictures from elsewhere."""

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeGuard

_STYLE = """
:root { color-scheme: light; }
* { box-sizing: border-box; }
body { font: 16px/1.5 system-ui, sans-serif; color: #1b1f24; background: #fff; margin: 0 auto;
  max-width: 46rem; padding: 1rem; overflow-wrap: anywhere; }
h1 { font-size: 1.5rem; line-height: 1.25; margin: 0 0 .25rem; }
h2 { font-size: 1.15rem; margin: 2rem 0 .5rem; break-after: avoid; }
h3 { font-size: 1rem; margin: 1rem 0 .25rem; break-after: avoid; }
ul { margin: .25rem 0; padding-left: 1.25rem; }
p.lead { color: #57606a; margin: 0 0 1rem; }
nav { font-size: .9rem; margin: 0 0 1rem; } nav a { display: inline-block; padding: .25rem 0;
  margin-right: 1rem; }
a { color: #0a58ca; }
.scroll { overflow-x: auto; margin: 1rem 0; }
table { border-collapse: collapse; font-size: .9rem; }
th, td { text-align: left; padding: .3rem .75rem .3rem 0; border-bottom: 1px solid #d8dee4;
  vertical-align: top; font-weight: normal; }
thead th { font-weight: 600; white-space: nowrap; }
th, td { overflow-wrap: normal; } td.long { overflow-wrap: anywhere; min-width: 12rem; }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums;
  white-space: nowrap; }
figure { margin: 1rem 0; max-width: 40rem; } figure svg { width: 100%; height: auto;
  display: block; }
figcaption { color: #57606a; font-size: .9rem; }
.card { border: 1px solid #d0d7de; border-left: .3rem solid #1f6feb; border-radius: .3rem;
  padding: .75rem 1rem; margin: 1rem 0; break-inside: avoid; }
.warning { border-left-color: #cf222e; background: #fff5f5; }
.meter { border: 1px solid #57606a; border-radius: .3rem; height: 1rem; max-width: 40rem;
  overflow: hidden; } .meter div { background: #1f6feb; height: 100%;
  print-color-adjust: exact; -webkit-print-color-adjust: exact; }
@media (max-width: 30rem) { table { font-size: .85rem; } thead th { white-space: normal; }
  th, td { padding-right: .5rem; } }
@media print { @page { margin: 15mm; } body { max-width: none; padding: 0; font-size: 11pt; }
  nav { display: none; } figure, tr { break-inside: avoid; } figure { max-width: 15cm; }
  .scroll { overflow: visible; } thead { display: table-header-group; } }
"""


_LONG = 32
"""Longer texts in a table may break anywhere."""


@dataclass(frozen=True)
class Text:
    """A paragraph."""

    text: str


@dataclass(frozen=True)
class Card:
    """A framed statement."""

    text: str
    warning: bool = False


@dataclass(frozen=True)
class Table:
    """Rows under a header; numbers are shown with four significant digits."""

    header: Sequence[str]
    rows: Sequence[Sequence[object]]


@dataclass(frozen=True)
class Picture:
    """An inline SVG picture with its caption, which says in words what the picture shows."""

    svg: str
    caption: str


@dataclass(frozen=True)
class Meter:
    """A share of a whole, with words that say it too."""

    share: float
    text: str


@dataclass(frozen=True)
class Listing:
    """Lines under a small heading."""

    heading: str
    lines: Sequence[str]


Block = Text | Card | Table | Picture | Meter | Listing
Section = tuple[str, Sequence[Block]]
"""A heading and what stands under it."""


def facts(values: Mapping[str, object]) -> Table:
    """A two-column table of names and values."""
    shown = ((name, format_number(v) if _is_number(v) else v) for name, v in values.items())
    return Table(("", ""), tuple(shown))


def render_page(title: str, lead: str, sections: Sequence[Section]) -> str:
    """The page as text; every value is escaped, pictures are trusted SVG made here."""
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{html.escape(title)}</title><style>{_STYLE}</style></head><body>",
        f'<h1>{html.escape(title)}</h1><p class="lead">{html.escape(lead)}</p>',
    ]
    if len(sections) > 1:
        links = (
            f'<a href="#s{index}">{html.escape(heading)}</a>'
            for index, (heading, _) in enumerate(sections, 1)
        )
        parts.append(f'<nav aria-label="Sections">{" ".join(links)}</nav>')
    for index, (heading, blocks) in enumerate(sections, 1):
        parts.append(f'<section id="s{index}"><h2>{html.escape(heading)}</h2>')
        parts.extend(_render_block(block) for block in blocks)
        parts.append("</section>")
    parts.append("</body></html>\n")
    return "\n".join(parts)


def _render_block(block: Block) -> str:
    match block:
        case Text(text):
            return f"<p>{html.escape(text)}</p>"
        case Card(text, warning):
            return f'<div class="card{" warning" if warning else ""}">{html.escape(text)}</div>'
        case Picture(svg, caption):
            label = html.escape(caption)
            return (
                f'<figure role="img" aria-label="{label}">{svg}'
                f"<figcaption>{label}</figcaption></figure>"
            )
        case Meter(share, text):
            label, width = html.escape(text), f"{100 * min(1.0, max(0.0, share)):.1f}"
            return (
                f'<div class="meter" role="img" aria-label="{label}">'
                f'<div style="width:{width}%"></div></div><p>{label}</p>'
            )
        case Listing(heading, lines):
            items = "".join(f"<li>{html.escape(line)}</li>" for line in lines)
            return f"<h3>{html.escape(heading)}</h3><ul>{items}</ul>"
        case Table(header, rows):
            return _render_table(header, rows)


def _render_table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A table that scrolls by itself where the page is narrow; keyboards reach it too."""
    numbers = [bool(rows) and _is_number(value) for value in (rows[0] if rows else header)]
    kinds = [' class="number"' if number else "" for number in numbers]
    head = "".join(
        f'<th scope="col"{kind}>{html.escape(name)}</th>'
        for name, kind in zip(header, kinds, strict=True)
    )
    body = "".join(f"<tr>{''.join(_cell(value) for value in row)}</tr>" for row in rows)
    top = f"<thead><tr>{head}</tr></thead>" if any(header) else ""
    return f'<div class="scroll" tabindex="0"><table>{top}<tbody>{body}</tbody></table></div>'


def _is_number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _cell(value: object) -> str:
    if not _is_number(value):
        text = str(value)
        long = ' class="long"' if len(text) > _LONG else ""
        return f"<td{long}>{html.escape(text)}</td>"
    return f'<td class="number">{format_number(value)}</td>'


def format_number(value: float) -> str:
    """Four significant digits; whole numbers in full."""
    if abs(value) < 1e12 and value == round(value):
        return f"{int(value):,}"
    return f"{value:.4g}"
