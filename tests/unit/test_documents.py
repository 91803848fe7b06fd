"""What the documents say is executed."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted(
    path for path in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")] if not path.is_symlink()
)


def blocks(path: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", path.read_text(), re.MULTILINE | re.DOTALL)


PYTHON = [
    pytest.param(code, id=f"{path.name}-{index}")
    for path in DOCUMENTS
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
    script = next(block for block in blocks(ROOT / "README.md", "sh") if "cd examples" in block)
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


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_links_between_documents_lead_somewhere(path: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", path.read_text()):
        assert (path.parent / target).exists(), target
