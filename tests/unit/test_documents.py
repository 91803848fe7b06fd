"""What the documents say is executed."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from document_page import fenced, run_page

import dpstream
from dpstream.catalogue.catalogue import entries
from dpstream.catalogue.entry import Kind

ROOT = Path(__file__).parents[2]
PAGES = sorted(path for path in (ROOT / "docs").rglob("*.md") if not path.is_symlink())
DOCUMENTS = [*sorted(ROOT.glob("*.md")), *PAGES]
WITH_PAGES = {Kind.LEARNER: "learners", Kind.SOLVER: "solvers", Kind.STRATEGY: "strategies"}


def blocks(path: Path, language: str) -> list[str]:
    return [text for found, _, text in fenced(path) if found == language]


PYTHON = [
    pytest.param(code, id=f"{path.name}-{index}")
    for path in sorted(ROOT.glob("*.md"))
    for index, code in enumerate(blocks(path, "python"))
]


@pytest.mark.parametrize("code", PYTHON)
def test_python_blocks_run(code: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_the_readme_has_python_to_run() -> None:
    assert len(blocks(ROOT / "README.md", "python")) == 1


def test_the_readmes_commands_run_as_written(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    scripts = blocks(ROOT / "README.md", "sh")
    script = next(block for block in scripts if "cd examples" in block)
    folder, shown = tmp_path, []
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    for line in script.splitlines():
        words = shlex.split(line, comments=True)
        if words[0] == "cd":
            folder = folder / words[1]
            continue
        done = subprocess.run(
            words, cwd=folder, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{line}: {done.stderr}"
        shown.append(done.stdout)
    assert "predicted error" in shown[0]
    assert "160 new releases" in shown[1]
    assert "0 new releases" in shown[2]
    assert "FAIL" not in shown[4]
    report = (folder / "out" / "report.html").read_text()
    assert "<svg" in report
    # Self-contained: nothing is loaded from elsewhere.
    assert not re.search(r'(src|href)="(?!#)', report)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_every_block_of_a_page_does_what_the_page_says(path: Path, tmp_path: Path) -> None:
    assert path.read_text().count("\n```") == 2 * len(fenced(path))
    run_page(path, tmp_path)


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_links_between_documents_lead_somewhere(path: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", path.read_text()):
        # Proofs are pages of the site alone, which is built strictly.
        assert "/proofs/" in target or (path.parent / target).exists(), target


@pytest.mark.parametrize("kind", WITH_PAGES, ids=lambda kind: kind.value)
def test_every_algorithm_of_the_catalogue_has_a_page_and_no_other_has(kind: Kind) -> None:
    folder = ROOT / "docs" / "algorithms" / WITH_PAGES[kind]
    assert {path.stem for path in folder.iterdir()} == {entry.name for entry in entries(kind)}


@pytest.mark.parametrize("kind", WITH_PAGES, ids=lambda kind: kind.value)
def test_a_page_says_when_to_take_the_algorithm_and_how_it_works(kind: Kind) -> None:
    for path in (ROOT / "docs" / "algorithms" / WITH_PAGES[kind]).iterdir():
        text = path.read_text()
        assert text.startswith(f"# {path.stem}\n")
        headings = re.findall(r"^## (.*)$", text, re.MULTILINE)
        assert headings[:2] == ["When to take it", "How it works"]
        assert all(len(part.split()) > 15 for part in text.split("## ")[1:3])


def test_every_page_is_in_the_navigation() -> None:
    named = set(re.findall(r"[\w/-]+\.md", (ROOT / "mkdocs.yml").read_text()))
    pages = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    assert named - {"proofs.md"} == pages


def test_the_reference_covers_exactly_the_public_names() -> None:
    listed = re.findall(r"^::: dpstream\.(\w+)$", (ROOT / "docs" / "api.md").read_text(), re.M)
    assert sorted(listed) == sorted(dpstream.__all__)
