"""What mkdocs calls: pages get what the catalogue knows, proofs become pages, pictures are drawn.

A page of an algorithm holds what only a person can say: when to take it and how it works. Before
that stand the catalogue's facts, after it the picture, the options and the proof.
"""

import os
import re
from pathlib import Path
from typing import Any

from facts import (
    FOLDERS,
    SOURCE_ROOT,
    catalogue_table,
    fact_table,
    mechanism_table,
    option_table,
    page_of,
    proof_page,
    with_pages,
)
from figures import Picture, picture
from mkdocs.structure.files import File

from dpstream.catalogue.entry import Entry, Kind

ROOT = Path(__file__).resolve().parents[2]
REPOSITORY_FILES = re.compile(r"\]\((?:\.\./)*((?:examples|benchmarks)/[^)#]+)\)")
"""Links to files of the repository that are no pages: the site holds copies of them."""

_pictures: dict[str, Picture] = {}
_pages: dict[str, Entry] = {}


def on_config(config: Any) -> Any:
    """Forget an earlier build."""
    _pictures.clear()
    _pages.clear()
    _pages.update({page_of(entry): entry for entry in with_pages()})
    return config


def on_files(files: Any, *, config: Any) -> Any:
    """Add a page for every proof, and a picture for every algorithm."""
    index = ["# Proofs", "", _PROOFS, ""]
    for path in sorted(SOURCE_ROOT.rglob("*.proof.md")):
        text = path.read_text(encoding="utf-8")
        module = ".".join(
            ("dpstream", *path.relative_to(SOURCE_ROOT).with_suffix("").with_suffix("").parts)
        )
        place = proof_page(module)
        files.append(File.generated(config, place, content=_spaced(text)))
        title = text.partition("\n")[0].removeprefix("# ")
        index.append(f"- [{title}]({place}): `{module}`")
    files.append(File.generated(config, "proofs.md", content="\n".join(index) + "\n"))
    for pattern in (
        "examples/**/*.toml",
        "examples/**/*.py",
        "examples/**/*.md",
        "benchmarks/**/*.*",
    ):
        for path in ROOT.glob(pattern):
            copied = path.relative_to(ROOT).as_posix()
            files.append(File.generated(config, copied, content=path.read_text(encoding="utf-8")))
    # While writing, DOCS_PICTURES=PrivIncReg1,Lasso draws those alone.
    chosen = os.environ.get("DOCS_PICTURES", "all")
    for entry in with_pages():
        drawn = picture(entry) if chosen == "all" or entry.name in chosen.split(",") else _NONE
        _pictures[entry.name] = drawn
        files.append(File.generated(config, f"pictures/{entry.name}.svg", content=drawn.svg))
    return files


_NONE = Picture('<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 4 1"/>', "Not drawn.")
_PROOFS = (
    "One beside every module whose output is published or whose numbers privacy rests on. Each "
    "carries the fingerprint of the module it was written for; the tests fail if the module has "
    "changed since. What a proof has to hold, [GUARANTEE](GUARANTEE.md) says."
)


def on_page_markdown(markdown: str, *, page: Any, config: Any, files: Any) -> str:
    """Put facts before and picture, options and proof behind what is written."""
    del config, files
    place = page.file.src_uri
    if place == "index.md":  # the README, whose links begin at the repository's root
        markdown = markdown.replace("](docs/", "](")
    up = "../" * place.count("/")
    markdown = REPOSITORY_FILES.sub(rf"]({up}\1)", markdown)
    if place == "algorithms/index.md":
        for kind in Kind:
            table = mechanism_table() if kind is Kind.MECHANISM else catalogue_table(kind)
            markdown = markdown.replace(f"<!-- table: {kind.value} -->", table)
    entry = _pages.get(place)
    if entry is None:
        return markdown
    head, _, body = markdown.partition("\n")
    drawn = _pictures[entry.name]
    parts = [
        head,
        fact_table(entry),
        body.strip(),
        "## Picture",
        f"![{_plain(drawn.caption)}](../../pictures/{entry.name}.svg)",
        drawn.caption,
        option_table(entry),
        "## Proof",
        f"[Claim, assumptions, argument, sensitivity](../../{proof_page(entry.module)}), kept "
        "beside the code.",
    ]
    return "\n\n".join(part for part in parts if part)


def _plain(text: str) -> str:
    return text.replace("`", "").replace("[", "(").replace("]", ")")


def _spaced(text: str) -> str:
    """Markdown wants an empty line before a list, which proofs do not always have."""
    return re.sub(r"(?m)^(?![-*] |\s)(.+)\n(?=[-*] )", r"\1\n\n", text)


__all__ = ["FOLDERS", "on_config", "on_files", "on_page_markdown"]
