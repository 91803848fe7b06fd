"""Pages of runs, plans, audits, explanations and reproductions: whole, alone, and readable."""

import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from command_line import call
from web_page import browser, contrast, mistakes, seen_in_browser

from dpstream.mechanisms.public import public_generator
from dpstream.report.figure import Line, interval_figure, line_figure
from dpstream.report.page import Card, Meter, Picture, Table, Text, render_page
from dpstream.reproduce.claim import claim, keep_picture
from dpstream.reproduce.summary import summary_page

HEAD = """
[columns.a]
lower = 0
upper = 1
[columns.a_rather_long_name_of_a_column]
categories = ["x", "y", "<script>alert(1)</script>"]
"""
NUMBER = HEAD + "[targets.t]\nlower = 0\nupper = 2\n"
LABEL = HEAD + '[targets.t]\nlabels = ["low", "high"]\n'
PRIVACY = '[privacy]\nepsilon = 4.0\ndelta = 1e-6\nneighbours = "zero_out"\n'
STREAM = PRIVACY + "[schedule]\nevery = 50\nhorizon = 8\n[learner]\n"
CONFIGURATIONS = {
    "linear": NUMBER + STREAM + 'name = "PrivIncReg1"\n',
    "scores": LABEL + STREAM + 'name = "FollowTheLeader"\nloss = "logistic"\n',
    "sums": HEAD + STREAM + 'name = "RunningSum"\ncount = true\n',
    "refits": LABEL
    + STREAM
    + 'name = "PrivIncERM"\nloss = "logistic"\nconstraint = "l2"\nridge = 0.1\n'
    'solver = "output_perturbation"\nrefit_every = 2\n',
    "batch": NUMBER + PRIVACY + '[batch]\nrecords = 200\nsolver = "mirror_descent"\n',
}


def rows(count: int, *, labels: bool) -> str:
    generator = public_generator(5)
    lines = ["a,a_rather_long_name_of_a_column,t"]
    for a, b in zip(generator.uniform(size=count), generator.integers(0, 2, count), strict=True):
        target = ("low", "high")[int(a + 0.5 * b > 0.7)] if labels else f"{a + 0.5 * b:.4f}"
        lines.append(f"{a:.4f},{'xy'[b]},{target}")
    return "\n".join(lines) + "\n"


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """One page of every kind there is, as the commands write them."""
    folder = tmp_path_factory.mktemp("pages")
    found: dict[str, Path] = {}
    for name, text in CONFIGURATIONS.items():
        (folder / f"{name}.toml").write_text(text)
        (folder / f"{name}.csv").write_text(
            rows(200 if name == "batch" else 220, labels="labels" in text)
        )
        done = call("run", f"{name}.toml", "--input", f"{name}.csv", "--out", name, folder=folder)
        assert done.returncode == 0, done.stderr
        found[f"run-{name}"] = folder / name / "report.html"
    commands = {
        "plan": ("plan", "linear.toml"),
        "ranking": ("plan", "batch.toml"),
        "explanation": ("explain", "linear.toml"),
        "audit": ("audit", "--mechanism", "measure_gaussian", "--budget", "1"),
    }
    for name, arguments in commands.items():
        path = folder / f"{name}.html"
        done = call(*arguments, "--picture", path.name, folder=folder)
        assert done.returncode == 0, done.stderr
        found[name] = path
    one = claim("slope", expected="near -1", measured=-0.97, held=True, theirs="figure 2")
    line = Line(x=np.arange(9.0), y=np.arange(9.0) ** 2)
    svg = line_figure({"measured": line}, x_label="records", y_label="risk")
    result = {"claims": [one], "pictures": [keep_picture(folder, "risk-by-records", svg)]}
    found["reproduction"] = folder / "index.html"
    found["reproduction"].write_text(
        summary_page({"shape": result}, about={"shape": "a shape"}, refused={}, out=folder)
    )
    return found


def test_every_page_is_whole_alone_and_legible(pages: dict[str, Path]) -> None:
    assert len(pages) == 10
    for name, path in pages.items():
        text = path.read_text(encoding="utf-8")
        assert mistakes(text) == [], name
        assert "alert(1)</script>" not in text, name


def test_a_browser_shows_every_page_without_errors_or_overflow(
    pages: dict[str, Path], tmp_path: Path
) -> None:
    program = browser()
    if program is None:
        # Without a browser, what can be said of widths is in the text: nothing has a fixed one.
        for path in pages.values():
            text = path.read_text(encoding="utf-8")
            assert not re.search(r"[^-]width: ?\d+px", text)
            assert text.count("<table>") == text.count('<div class="scroll" tabindex="0"><table>')
            assert text.count("<svg") == text.count("viewBox=")
        return
    assert seen_in_browser(pages, tmp_path, program) == []


def test_the_page_of_a_run_says_what_was_asked_of_it(pages: dict[str, Path]) -> None:
    linear = pages["run-linear"].read_text()
    for said in ("95 % intervals", "measured error", "predicted error", "Noise", "is spent"):
        assert said in linear
    assert "measured loss" in pages["run-scores"].read_text()
    assert "predicted excess risk" in pages["run-refits"].read_text()
    assert "Released mean of a over time" in pages["run-sums"].read_text()
    assert "what the place in the stream that paid most" in pages["run-refits"].read_text().lower()


def test_the_curves_of_a_page_are_the_released_numbers(pages: dict[str, Path]) -> None:
    folder = pages["run-linear"].parent
    model = json.loads((folder / "model.json").read_text())["model"]
    text = pages["run-linear"].read_text()
    for estimate in model["targets"][0]["user"]["coefficients"]["estimate"]:
        assert f'<td class="number">{estimate:.4g}</td>' in text


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        ("<p>one<p>", "never closed"),
        ('<img src="https://elsewhere/x.png" alt="a picture">', "from elsewhere"),
        ('<a href="#nowhere">there</a>', "not on the page"),
        ('<figure role="img" aria-label=""></figure>', "without words"),
        ("<script>1</script>", "active content"),
        ('<svg><text style="fill: #cccccc">pale</text></svg>', "contrast"),
        ("</section>", "closes nothing"),
    ],
)
def test_the_checks_of_pages_can_fail(broken: str, said: str) -> None:
    good = render_page("A title", "A lead", [("Part", [Text("words")])])
    assert mistakes(good) == []
    assert any(said in found for found in mistakes(good.replace("<p>words</p>", broken)))


def test_a_browser_can_find_faults(tmp_path: Path) -> None:
    wide = '<div style="min-width:3000px">wide</div>'
    bad = render_page("A title", "A lead", [("Part", [Text("words")])]).replace(
        "<p>words</p>", wide + "<script>console.error('fault')</script>"
    )
    path = tmp_path / "bad.html"
    path.write_text(bad)
    program = browser()
    if program is None:
        assert "holds active content" in mistakes(bad)
        return
    found = " ".join(seen_in_browser({"bad": path}, tmp_path, program))
    assert "wider than its window" in found
    assert "fault" in found


def test_contrast_is_that_of_the_standard() -> None:
    assert contrast("#000", "#fff") == pytest.approx(21.0)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


def test_every_block_is_escaped() -> None:
    evil = "<b>&"
    blocks = [Text(evil), Card(evil), Table((evil,), [(evil,)]), Meter(2.0, evil)]
    page = render_page(evil, evil, [(evil, [*blocks, Picture("<svg></svg>", evil)])])
    assert "<b>" not in page
    assert "width:100.0%" in page


def curve(svg: str) -> list[tuple[float, float]]:
    """The points of the first curve; more than one piece if it has gaps."""
    path = re.search(r'<path d="([^"]*)"[^>]*fill: none; stroke: #1f6feb', svg)
    assert path is not None
    return [(float(x), float(y)) for x, y in re.findall(r"[ML] (\S+) (\S+)", path[1])]


def test_a_gap_in_a_curve_stays_a_gap() -> None:
    y = np.array([1.0, 2.0, np.nan, 3.0, 4.0])
    svg = line_figure({"a": Line(x=np.arange(5.0), y=y)}, x_label="x", y_label="y")
    path = re.search(r'<path d="([^"]*)"[^>]*fill: none; stroke: #1f6feb', svg)
    assert path is not None
    assert path[1].count("M") == 2
    assert "nan" not in svg


def test_a_long_curve_keeps_its_extremes() -> None:
    y = np.zeros(200_000)
    y[123_456] = 7.0
    line = Line(x=np.arange(200_000.0), y=y)
    svg = line_figure({"a": line}, x_label="x", y_label="y")
    assert len(svg) < 80_000
    heights = [y for _, y in curve(svg)]
    assert max(heights) - min(heights) > 150  # the spike crosses the frame


def test_pictures_of_nothing_and_of_one_point_can_be_drawn() -> None:
    nothing = line_figure({"a": Line(x=np.zeros(0), y=np.zeros(0))}, x_label="x", y_label="y")
    assert nothing.startswith("<svg")
    one = line_figure({"a": Line(x=np.ones(1), y=np.ones(1))}, x_label="x", y_label="y")
    assert re.search(r"<use [^>]*fill: #1f6feb", one)
    assert not re.search(r"<use [^>]*fill: #1f6feb", nothing)
    bars = interval_figure(["a", "b"], np.array([1.0, np.nan]), np.array([0.5, 1.0]))
    assert "nan" not in bars


def test_pictures_on_one_page_share_no_identifier_and_styles_no_page() -> None:
    one = interval_figure(["a"], np.array([1.0]), np.array([0.5]))
    other = interval_figure(["a"], np.array([2.0]), np.array([0.5]))
    first, second = (set(re.findall(r'id="([^"]+)"', svg)) for svg in (one, other))
    assert first
    assert not first & second
    assert "<style" not in one
    assert one == interval_figure(["a"], np.array([1.0]), np.array([0.5]))


def test_without_the_library_a_picture_says_what_would_show_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    svg = interval_figure(["a"], np.array([1.0]), np.array([0.5]))
    assert "dpstream[report]" in svg
    page = render_page("A title", "A lead", [("Part", [Picture(svg, "the caption")])])
    assert mistakes(page) == []
