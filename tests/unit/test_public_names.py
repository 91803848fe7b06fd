"""The public interface is exactly what is listed, and costs nothing to import."""

import subprocess
import sys

import pytest

import dpstream

NAMES = {
    "Boolean",
    "Budget",
    "Categorical",
    "Domain",
    "DpstreamError",
    "EveryInterval",
    "EveryRecords",
    "IntervalTarget",
    "LabelTarget",
    "MemorySource",
    "MemoryStore",
    "Neighbours",
    "Numeric",
    "PrivIncReg1",
    "Release",
    "ReleaseLog",
    "RunningSum",
    "Session",
    "SqliteStore",
    "Stream",
    "Thinning",
    "Unit",
    "open_source",
    "verify_store",
}


def test_the_public_names_are_these() -> None:
    assert set(dpstream.__all__) == NAMES
    assert len(NAMES) <= 25
    assert set(dir(dpstream)) == {*NAMES, "__version__"}


@pytest.mark.parametrize("name", sorted(NAMES))
def test_every_public_name_is_documented(name: str) -> None:
    found = getattr(dpstream, name)
    assert found.__doc__
    assert found.__name__ == name


def test_another_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'PrivIncReg9'"):
        _ = dpstream.PrivIncReg9


@pytest.mark.parametrize("arguments", [("-c", "import dpstream"), ("-m", "dpstream.cli", "--help")])
def test_importing_and_asking_for_help_load_nothing_heavy(arguments: tuple[str, ...]) -> None:
    done = subprocess.run(
        [sys.executable, "-X", "importtime", *arguments],
        capture_output=True,
        text=True,
        check=True,
    )
    loaded = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    heavy = {"numpy", "scipy", "numba", "pydantic", "cryptography", "dp_accounting", "matplotlib"}
    assert not heavy & loaded
