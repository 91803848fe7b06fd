"""One HTML page with everything inside: no scripts, no fonts or pictures from elsewhere."""

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

_STYLE = """
:root { color-scheme: light; }
* { box-sizing: border-box; }
body { font: 16px/1.5 system-ui, sans-serif; color: #1b1f24; background: #fff; margin: 0 auto;
  max-width: 60rem; padding: 1rem; }
h1 { font-size: 1.5rem; margin: 0 0 .25rem; } h2 { font-size: 1.15rem; margin: 2rem 0 .5rem; }
p.lead { color: #57606a; margin: 0 0 1rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: .9rem; }
th, td { text-align: left; padding: .3rem .75rem .3rem 0; border-bottom: 1px solid #d8dee4;
  vertical-align: top; }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; }
figure { margin: 1rem 0; } figure svg { width: 100%; height: auto; }
figcaption { color: #57606a; font-size: .9rem; }
.card { border: 1px solid #d0d7de; border-left: .3rem solid #1f6feb; border-radius: .3rem;
  padding: .75rem 1rem; margin: 1rem 0; }
.warning { border-left-color: #cf222e; background: #fff5f5; }
@media print { body { max-width: none; } figure, table { break-inside: avoid; } }
"""


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


Block = Text | Card | Table | Picture


def facts(values: Mapping[str, object]) -> Table:
    """A two-column table of names and values."""
    return Table(("", ""), tuple((name, value) for name, value in values.items()))


def render_page(title: str, lead: str, sections: Sequence[tuple[str, Sequence[Block]]]) -> str:
    """The page as text; every value is escaped, pictures are trusted SVG made here."""
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{html.escape(title)}</title><style>{_STYLE}</style></head><body>",
        f'<h1>{html.escape(title)}</h1><p class="lead">{html.escape(lead)}</p>',
    ]
    for heading, blocks in sections:
        parts.append(f"<section><h2>{html.escape(heading)}</h2>")
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
        case Table(header, rows):
            head = "".join(f"<th>{html.escape(name)}</th>" for name in header)
            body = "".join(f"<tr>{''.join(_cell(value) for value in row)}</tr>" for row in rows)
            top = f"<thead><tr>{head}</tr></thead>" if any(header) else ""
            return f'<div class="scroll"><table>{top}<tbody>{body}</tbody></table></div>'


def _cell(value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return f"<td>{html.escape(str(value))}</td>"
    return f'<td class="number">{format_number(value)}</td>'


def format_number(value: float) -> str:
    """Four significant digits; whole numbers in full."""
    if abs(value) < 1e12 and value == round(value):
        return f"{int(value):,}"
    return f"{value:.4g}"
