"""Proof files: found beside their modules, and bound to the source they were written for.

A proof ends with a line ``Fingerprint: <sha256>`` of its module's source. A changed module has
a stale proof until somebody has read it again and renewed the line.
"""

import hashlib
import re
from importlib.util import find_spec
from pathlib import Path

_LINE = re.compile(r"^Fingerprint: ([0-9a-f]{64})[ \t]*$", re.MULTILINE)
PROOF_SECTIONS = ("Claim", "Assumptions", "Argument", "Sensitivity", "Source")


def source_path(module: str) -> Path:
    """The file of a module, without importing it."""
    spec = find_spec(module)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(f"no source file for {module}")
    return Path(spec.origin)


def proof_path(module: str) -> Path:
    """Where the proof of a module has to be."""
    return source_path(module).with_suffix(".proof.md")


def source_fingerprint(module: str) -> str:
    """SHA-256 of a module's source."""
    return hashlib.sha256(source_path(module).read_bytes()).hexdigest()


def recorded_fingerprint(proof: str) -> str | None:
    """The fingerprint that a proof's text records, if any."""
    found = _LINE.findall(proof)
    return str(found[-1]) if found else None


def renewed(proof: str, fingerprint: str) -> str:
    """The proof's text with its fingerprint line set."""
    line = f"Fingerprint: {fingerprint}"
    if _LINE.search(proof):
        return _LINE.sub(line, proof)
    return f"{proof.rstrip()}\n\n{line}\n"
