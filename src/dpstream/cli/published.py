"""The public files of a run's folder, compared with the store that they were written from.

``report.html`` is not among them: it is drawn from the same releases, for people.
"""

import json
import math
from collections.abc import Callable, Mapping
from typing import Any

from dpstream.cli.folder import RunFolder, model_json
from dpstream.engine.ports import Store
from dpstream.engine.publication import from_line, to_line
from dpstream.errors import DpstreamError, StoreCorrupt
from dpstream.privacy.ledger import Ledger
from dpstream.saved.model_file import load_model
from dpstream.stores.verification import Check, declared

_WRITTEN_ANEW = "resume the stream to have it written anew"


def published_checks(folder: RunFolder, store: Store) -> list[Check]:
    """One check for each file that is there; a file may be of an earlier release than the last.

    Args:
        folder: of the run.
        store: its own, open for reading.
    """
    identity = store.identity() or {}
    files: dict[str, tuple[bool, Callable[[], str]]] = {
        folder.ledger.name: (folder.ledger.exists(), lambda: _ledger(folder, store, identity)),
        folder.model.name: (folder.model.exists(), lambda: _model(folder, store, identity)),
        folder.saved.name: (folder.saved.exists(), lambda: _saved(folder, store)),
    }
    return [_checked(name, look) for name, (exists, look) in files.items() if exists]


def _checked(name: str, look: Callable[[], str]) -> Check:
    try:
        return Check(name, True, look())
    except DpstreamError as error:
        return Check(name, False, str(error))
    except Exception as error:  # an edited file may fail anywhere
        return Check(name, False, f"cannot be read ({type(error).__name__}); {_WRITTEN_ANEW}")


def _ledger(folder: RunFolder, store: Store, identity: Mapping[str, Any]) -> str:
    content = json.loads(folder.ledger.read_bytes())
    budget, unit = declared(identity)
    kept = store.ledger()
    stated = content["rows"]
    if stated != [row.to_json() for row in kept[: len(stated)]]:
        raise StoreCorrupt(f"its rows are not the store's; {_WRITTEN_ANEW}")
    ledger = Ledger.from_rows(kept[: len(stated)], budget=budget, unit=unit)
    spent = ledger.spent().epsilon(budget.delta)
    figures = {"epsilon": budget.epsilon, "delta": budget.delta}
    if (content["head"], content["budget"]) != (ledger.head, figures) or not math.isclose(
        content["epsilon_spent"], spent, rel_tol=1e-9
    ):
        raise StoreCorrupt(f"its budget, head or epsilon is not the store's; {_WRITTEN_ANEW}")
    return f"{len(stated)} of {len(kept)} rows equal"


def _line(store: Store, tick: int) -> bytes:
    row = store.release(tick)
    if row is None:
        raise StoreCorrupt(f"it is of tick {tick}, at which the store has no release")
    return row.line


def _model(folder: RunFolder, store: Store, identity: Mapping[str, Any]) -> str:
    content = json.loads(folder.model.read_bytes())
    release = from_line(_line(store, int(content["tick"])))
    expected = json.loads(model_json(identity, release))
    version = "dpstream"  # of the package that wrote it: any
    if content | {version: None} != expected | {version: None}:
        raise StoreCorrupt(f"it differs from the release at tick {release.tick}; {_WRITTEN_ANEW}")
    return _told(store, release.tick)


def _saved(folder: RunFolder, store: Store) -> str:
    model = load_model(folder.saved)
    if to_line(model.release) != _line(store, model.release.tick):
        raise StoreCorrupt(
            f"it differs from the release at tick {model.release.tick}; {_WRITTEN_ANEW}"
        )
    charged = int(str(model.release.provenance["ledger_rows"]))
    if len(model.rows) < charged or list(model.rows) != store.ledger()[: len(model.rows)]:
        raise StoreCorrupt(f"its ledger is not the store's; {_WRITTEN_ANEW}")
    return _told(store, model.release.tick)


def _told(store: Store, tick: int) -> str:
    last = store.last_release()
    return f"of tick {tick}" + (", the last" if last is None or last.tick == tick else "")
