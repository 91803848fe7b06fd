"""The catalogue is complete, true, and its proofs are fresh."""

import importlib
import inspect
import pkgutil
from types import ModuleType

import pytest

import dpstream
from dpstream.catalogue.catalogue import CATALOGUE
from dpstream.catalogue.entry import Entry, Kind
from dpstream.catalogue.fingerprint import proved_modules
from dpstream.catalogue.proof import (
    PROOF_SECTIONS,
    proof_path,
    recorded_fingerprint,
    source_fingerprint,
)
from dpstream.geometry.convex_set import ConvexSet
from dpstream.losses.loss import Loss

PROVED = (Kind.MECHANISM, Kind.STRATEGY, Kind.SOLVER, Kind.LEARNER)


def modules(package: str) -> list[ModuleType]:
    root = importlib.import_module(package)
    return [
        importlib.import_module(info.name)
        for info in pkgutil.walk_packages(root.__path__, f"{package}.")
        if not info.ispkg
    ]


def classes(package: str) -> list[type]:
    """Public, concrete classes defined in a package."""
    return [
        item
        for module in modules(package)
        for name, item in vars(module).items()
        if inspect.isclass(item)
        and item.__module__ == module.__name__
        and not name.startswith("_")
        and not inspect.isabstract(item)
        and not getattr(item, "_is_protocol", False)
    ]


def has_members(item: type, *names: str) -> bool:
    fields = getattr(item, "__dataclass_fields__", {})
    return all(hasattr(item, name) or name in fields for name in names)


def listed(kind: Kind) -> set[str]:
    return {entry.attribute for entry in CATALOGUE if entry.kind is kind}


def test_names_and_targets_are_unique() -> None:
    assert len({entry.name for entry in CATALOGUE}) == len(CATALOGUE)
    assert len({entry.target for entry in CATALOGUE}) == len(CATALOGUE)


@pytest.mark.parametrize("entry", CATALOGUE, ids=lambda entry: entry.name)
def test_every_entry_names_something_that_exists_and_is_documented(entry: Entry) -> None:
    found = getattr(importlib.import_module(entry.module), entry.attribute)
    assert inspect.getdoc(found)
    assert entry.source
    assert entry.summary
    if entry.kind in PROVED:
        assert entry.guarantee


def test_every_strategy_is_listed() -> None:
    found = {
        item.__name__
        for item in classes("dpstream.mechanisms.continual")
        if has_members(
            item, "sensitivity", "encoder", "decoder", "variance", "name", "rounding_norm"
        )
    }
    assert len(found) >= 10
    assert found == listed(Kind.STRATEGY)


def test_every_learner_is_listed() -> None:
    found = {
        item.__name__
        for item in classes("dpstream.learners")
        if has_members(item, "opening_events", "release", "learn", "snapshot")
    }
    assert {"PrivIncReg1", "RunningSum"} <= found
    assert found == listed(Kind.LEARNER)


def test_every_solver_is_listed() -> None:
    found = {
        item.__name__
        for item in classes("dpstream.solvers")
        if has_members(item, "plan", "release")
    }
    assert found == listed(Kind.SOLVER)


def test_every_set_and_loss_is_listed_or_made_of_listed_ones() -> None:
    # Images and regularised losses wrap a listed part; potentials are not sets.
    wrappers = {"Image", "ProjectableImage", "LocalImage", "ProjectableLocalImage", "SymmetricFlow"}
    sets = {
        item.__name__
        for item in classes("dpstream.geometry")
        if has_members(item, *_members(ConvexSet))
    }
    assert sets - wrappers == listed(Kind.SET)
    losses = {
        item.__name__ for item in classes("dpstream.losses") if has_members(item, *_members(Loss))
    }
    assert losses - {"RegularisedLoss"} == listed(Kind.LOSS)


def _members(protocol: type) -> set[str]:
    return {name for name in vars(protocol) if not name.startswith("_")} | set(
        getattr(protocol, "__annotations__", {})
    )


@pytest.mark.parametrize(
    "entry", [e for e in CATALOGUE if e.kind in PROVED], ids=lambda entry: entry.name
)
def test_every_proved_part_has_a_proof_with_its_sections(entry: Entry) -> None:
    text = proof_path(entry.module).read_text(encoding="utf-8")
    missing = [section for section in PROOF_SECTIONS if f"# {section}" not in text]
    assert not missing


@pytest.mark.parametrize("module", sorted(proved_modules()))
def test_no_proof_is_older_than_its_module(module: str) -> None:
    text = proved_modules()[module].read_text(encoding="utf-8")
    assert recorded_fingerprint(text) == source_fingerprint(module), (
        f"{module} changed: read its proof again, then run make fingerprints"
    )


def test_the_version_is_one() -> None:
    assert dpstream.__version__.count(".") == 2
