"""The folder of a run: which files it has, and what of it is public.

Public: ``model.json``, ``model.dps`` where the model predicts, ``releases.jsonl``, ``ledger.json``,
``report.html``. Secret: the store
``stream.db`` (its sealed rows and keyed hashes) and ``store.key``.
"""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dpstream
from dpstream.engine.ports import Store
from dpstream.errors import ConfigurationError, StoreError
from dpstream.privacy.ledger import LedgerRow
from dpstream.release import Release

MODEL_FORMAT = 1


@dataclass(frozen=True)
class RunFolder:
    """The paths of one run."""

    root: Path

    @property
    def store(self) -> Path:
        """The stream's durable memory: secret."""
        return self.root / "stream.db"

    @property
    def releases(self) -> Path:
        """Every release, one per line."""
        return self.root / "releases.jsonl"

    @property
    def model(self) -> Path:
        """The last release and everything needed to use it."""
        return self.root / "model.json"

    @property
    def saved(self) -> Path:
        """The last model as one file that predicts; see ``dpstream.saved.load_model``."""
        return self.root / "model.dps"

    @property
    def ledger(self) -> Path:
        """What was charged."""
        return self.root / "ledger.json"

    @property
    def report(self) -> Path:
        """The page for people."""
        return self.root / "report.html"

    def create(self) -> None:
        """Make the folder, if it is not there.

        Raises:
            StoreError: if it cannot be made or written.
        """
        try:
            self.root.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(
                f"folder {self.root} cannot be made ({error.strerror}); choose another with --out"
            ) from None
        if not os.access(self.root, os.W_OK | os.X_OK):
            raise StoreError(f"folder {self.root} cannot be written; choose another with --out")

    def require_none(self) -> None:
        """Refuse a folder where a stream was begun, or of which only the releases are left."""
        if self.store.exists():
            raise ConfigurationError(
                f"{self.root} holds a stream already; continue it with --resume, or choose another "
                "--out. Starting the same stream anew would spend its budget twice"
            )
        if self.releases.exists():
            raise ConfigurationError(
                f"{self.releases} is there without its store; choose another --out. Restore "
                f"{self.store.name} from a copy to continue that stream: begun anew, it would "
                "spend its budget twice"
            )

    def require_store(self) -> None:
        """Refuse a folder that holds no stream."""
        if not self.store.exists():
            raise ConfigurationError(
                f"{self.root} holds no stream (no {self.store.name}); name the folder of a run"
            )


def write_public(path: Path, text: str) -> None:
    """Replace a public file as a whole, so that no reader sees half of it."""
    aside = path.with_name(f".{path.name}.new")
    try:
        with aside.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        aside.replace(path)
    except OSError as error:
        aside.unlink(missing_ok=True)
        raise StoreError(
            f"{path} cannot be written ({error.strerror}); make its folder, or room; what a run "
            "committed is kept, and goes on with --resume"
        ) from None


def model_json(identity: Mapping[str, Any], release: Release[Mapping[str, Any]]) -> str:
    """The last release as a model file: what it says, what it promises, how to read it."""
    guarantee = release.guarantee
    content = {
        "format": MODEL_FORMAT,
        "dpstream": dpstream.__version__,
        "tick": release.tick,
        "model": release.value,
        "privacy": {
            "epsilon": guarantee.epsilon,
            "delta": guarantee.delta,
            "unit": {
                "kind": guarantee.unit.kind,
                "cap": guarantee.unit.cap,
                "column": guarantee.unit.column,
                "period": guarantee.unit.period,
            },
            "neighbours": guarantee.neighbours.value,
            "promise": guarantee.promise,
            "insecure_seed": guarantee.insecure_seed,
            "events": list(release.events),
        },
        "bounds": identity.get("domain"),
        "mechanism": identity["learner"],
        "schedule": identity["schedule"],
        "provenance": dict(release.provenance),
    }
    return json.dumps(content, indent=1, allow_nan=False) + "\n"


def ledger_json(
    rows: Sequence[LedgerRow], *, head: str, budget: Mapping[str, float], spent: float
) -> str:
    """The ledger as a public file."""
    content = {
        "budget": dict(budget),
        "epsilon_spent": spent,
        "head": head,
        "rows": [row.to_json() for row in rows],
    }
    return json.dumps(content, indent=1, allow_nan=False) + "\n"


def last_model(store: Store) -> Mapping[str, Any] | None:
    """The last release's line as JSON, if there is one."""
    row = store.last_release()
    return None if row is None else json.loads(row.line)
