"""Renew the fingerprints of proofs that were read again: ``make fingerprints``."""

import sys
from pathlib import Path

from dpstream.catalogue.proof import renewed, source_fingerprint

PACKAGE = Path(__file__).parent.parent


def proved_modules() -> dict[str, Path]:
    """Every module that has a proof beside it, with the proof's path."""
    found: dict[str, Path] = {}
    for path in sorted(PACKAGE.rglob("*.proof.md")):
        relative = path.relative_to(PACKAGE.parent)
        parts = (*relative.parent.parts, relative.name.removesuffix(".proof.md"))
        found[".".join(parts)] = path
    return found


def renew() -> list[str]:
    """Set every proof's fingerprint to its module's source; the modules that were stale."""
    stale: list[str] = []
    for module, path in proved_modules().items():
        before = path.read_text(encoding="utf-8")
        after = renewed(before, source_fingerprint(module))
        if after != before:
            path.write_text(after, encoding="utf-8")
            stale.append(module)
    return stale


if __name__ == "__main__":
    sys.stdout.write("".join(f"renewed {module}\n" for module in renew()))
