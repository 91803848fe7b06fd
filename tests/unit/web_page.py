"""What a self-contained page must be, checked by its text and, where there is one, in a browser."""

import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import quote

VOID = {"meta", "br", "hr", "img", "path", "circle", "link", "input", "use", "rect"}
WIDTHS = (360, 1200)
TEXT_CONTRAST, LINE_CONTRAST = 4.5, 3.0
GRID = {"#e4e8ec", "#d8dee4", "#d0d7de"}
"""Lines between things, which carry no meaning of their own."""


class _Outline(HTMLParser):
    """Checks nesting; collects what a reader without eyes, and a browser, would meet."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.mistakes: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.headings: list[str] = []
        self.pictures: list[str] = []
        self.tags: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.tags.add(tag)
        if len(given) != len(attrs):
            self.mistakes.append(f"<{tag}> repeats an attribute")
        if given.get("id"):
            self.ids.append(str(given["id"]))
        if tag == "a":
            self.links.append(str(given.get("href")))
        if given.get("role") == "img" or tag == "img":
            self.pictures.append(str(given.get("aria-label") or given.get("alt") or ""))
        if tag == "svg" and not any(part in ("figure",) for part in self.open):
            self.mistakes.append("a picture stands outside a figure, without words")
        if re.fullmatch("h[1-6]", tag):
            self.headings.append(tag)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        if tag not in VOID:
            self.mistakes.append(f"<{tag}/> closes itself")

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.mistakes.append(f"</{tag}> closes nothing, or another")


def mistakes(page: str) -> list[str]:
    """Everything wrong with a page's text: nesting, references, headings, words, contrast."""
    outline = _Outline()
    outline.feed(page)
    outline.close()
    found = list(outline.mistakes)
    found += [f"<{tag}> is never closed" for tag in outline.open]
    if not page.lower().startswith("<!doctype html>"):
        found.append("no doctype")
    if '<html lang="en">' not in page or 'name="viewport"' not in page or "<title>" not in page:
        found.append("no language, viewport or title")
    if outline.tags & {"script", "iframe", "object", "embed", "form"}:
        found.append("holds active content")
    found += [f"id {name} is given twice" for name in {*outline.ids} if outline.ids.count(name) > 1]
    for link in outline.links:
        if not (link.startswith("#") and link[1:] in outline.ids):
            found.append(f"a link to {link}, which is not on the page")
    addresses = re.findall(r"(?:src|href|action|data)\s*=\s*[\"']([^\"'#][^\"']*)", page)
    addresses += re.findall(r"(?:url\((?!#)|@import)[^;)]*", page)
    found += [f"loads {address} from elsewhere" for address in addresses]
    if outline.headings.count("h1") != 1 or outline.headings[0] != "h1":
        found.append(f"headings are {outline.headings}")
    found += ["a picture without words" for label in outline.pictures if len(label) < 8]
    if "@media print" not in page:
        found.append("nothing is said of printing")
    return found + low_contrasts(page)


def low_contrasts(page: str) -> list[str]:
    """Texts and lines that are too pale for their background."""
    style = page[page.index("<style>") : page.index("</style>")]
    grounds = {"#ffffff", *map(_long, re.findall(r"background(?:-color)?: ?(#f\w+)", style))}
    texts = {_long(colour) for colour in re.findall(r"[^-]color: ?(#\w+)", style)}
    texts |= {_long(c) for c in re.findall(r"<text[^>]*fill(?:: |=\")(#\w+)", page)}
    lines = {_long(colour) for colour in re.findall(r"stroke: (#\w+)", page)} - GRID
    pale: list[str] = []
    for wanted, colours in ((TEXT_CONTRAST, texts), (LINE_CONTRAST, lines)):
        for colour in sorted(colours):
            worst = min(contrast(colour, ground) for ground in grounds)
            if worst < wanted:
                pale.append(f"{colour} has contrast {worst:.2f}, below {wanted}")
    if not texts:
        pale.append("no colour was found to check")
    return pale


def contrast(one: str, other: str) -> float:
    """The ratio of luminances that WCAG 2 defines."""
    light, dark = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def _luminance(colour: str) -> float:
    parts = (int(_long(colour)[start : start + 2], 16) / 255 for start in (1, 3, 5))
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _long(colour: str) -> str:
    return colour if len(colour) == 7 else "#" + "".join(2 * letter for letter in colour[1:])


def browser() -> str | None:
    """A Chromium on this machine."""
    names = ("chromium", "chromium-browser", "google-chrome")
    return next(filter(None, map(shutil.which, names)), None)


_HARNESS = """<!doctype html><title>harness</title><body>{frames}<pre id="seen"></pre><script>
addEventListener("load", () => {{
  const seen = [...document.querySelectorAll("iframe")].map((frame) => {{
    const page = frame.contentDocument;
    const wide = page.documentElement.scrollWidth - frame.clientWidth;
    const small = [...page.querySelectorAll("svg")].filter((svg) => {{
      const box = svg.getBoundingClientRect();
      return box.width < 200 || box.height < 40;
    }}).length;
    const texts = [...page.querySelectorAll("svg text")].map(
      (text) => text.getBoundingClientRect().height);
    const outside = [...page.querySelectorAll("svg text")].filter((text) => {{
      const box = text.getBoundingClientRect();
      const whole = text.ownerSVGElement.getBoundingClientRect();
      return box.left < whole.left - 2 || box.right > whole.right + 2;
    }}).length;
    const least = texts.length ? Math.min(...texts) : 99;
    return [frame.name, wide, small, outside, least.toFixed(1), page.title.length].join(" ");
  }});
  document.getElementById("seen").textContent = seen.join("\\n");
}});
</script></body>"""


def seen_in_browser(pages: dict[str, Path], folder: Path, program: str) -> list[str]:
    """What a browser finds wrong at a phone's and a desktop's width: overflow, tiny text, errors.

    Raises:
        AssertionError: if the browser showed nothing.
    """
    frames = "".join(
        f'<iframe name="{name}@{width}" src="file://{quote(str(path.resolve()))}" '
        f'style="width:{width}px;height:800px;border:0"></iframe>'
        for name, path in pages.items()
        for width in WIDTHS
    )
    harness = folder / "harness.html"
    harness.write_text(_HARNESS.format(frames=frames))
    command = [program, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic"]
    command += ["--no-first-run", "--disable-background-networking", "--disable-sync"]
    command += ["--disable-component-update", "--allow-file-access-from-files"]
    command += [f"--user-data-dir={folder / 'profile'}", "--enable-logging=stderr", "--dump-dom"]
    done = subprocess.run(
        [*command, f"file://{harness.resolve()}"],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    listed = re.search(r'<pre id="seen">(.*?)</pre>', done.stdout, re.DOTALL)
    assert listed is not None, done.stderr[-2000:]
    found = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    rows = [line.split() for line in listed[1].splitlines() if line]
    assert len(rows) == len(pages) * len(WIDTHS), listed[1]
    for name, wide, small, outside, least, title in rows:
        if int(wide) > 0:
            found.append(f"{name} is {wide} pixels wider than its window")
        if int(small) or int(outside):
            found.append(f"{name}: {small} pictures too small, {outside} words outside theirs")
        if float(least) < 9.0:
            found.append(f"{name} has text of {least} pixels in a picture")
        if not int(title):
            found.append(f"{name} has no title")
    return found
