"""The names that the calls of ``mistakes_python.toml`` may use."""

import copy
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

import dpstream as dp
import dpstream.estimators as de
from dpstream.mechanisms.public import public_generator
from dpstream.saved import SavedModel, export_onnx, load_model, save_model

X = public_generator(7).uniform(-1, 1, (60, 2))
Y = X @ [0.5, -0.2]
TABLE = np.column_stack([X, Y])
DOMAIN = dp.Domain.vectors(2, norm_bound=1.0, target_bound=1.0)
READY: dict[str, Any] = {
    "bounds": (-1, 1),
    "target_bounds": (-1, 1),
    "classes": [False, True],
    "window": 2,
}


def mistake_names(folder: Path) -> dict[str, Any]:
    """Everything at hand in a call; ``folder`` is empty at its start."""
    words = TABLE.astype(object)
    words[4, 1] = "seven hundred"

    def declared(**options: Any) -> dict[str, Any]:
        return {
            "domain": DOMAIN,
            "budget": dp.Budget(epsilon=1.0, delta=1e-6),
            "unit": dp.Unit(),
            "neighbours": dp.Neighbours.ZERO_OUT,
            "horizon": 5,
        } | options

    def learner(**options: Any) -> dp.PrivIncReg1:
        return dp.PrivIncReg1(**declared(**options))

    def sums(**options: Any) -> dp.RunningSum:
        return dp.RunningSum(**declared(**options))

    def stream(**options: Any) -> dp.Stream[Any]:
        parts: dict[str, Any] = {"learner": None, "schedule": dp.EveryRecords(records=20)} | options
        if "learner" not in options:
            parts["learner"] = learner()
        return dp.Stream(**parts)

    def session(**options: Any) -> dp.Session[Any]:
        return dp.Session(stream(**options), store=dp.MemoryStore())

    def grant() -> de.Grant:
        return de.Grant(epsilon=1.0, delta=1e-6)

    def kept(name: str = "kept.db") -> Path:
        """The store of a stream that has run."""
        log = dp.ReleaseLog(folder / "log.jsonl")
        store = dp.SqliteStore(folder / name)
        with dp.Session(stream(), store=store, sinks=[log]) as ran:
            list(ran.run(dp.MemorySource(TABLE)))
        return folder / name

    def made(kind: str, **options: Any) -> Any:
        """An estimator of that name, ready to be fitted but for what is given."""
        cls = getattr(de, kind)
        ready = {"budget": grant(), **READY}
        if kind == "WindowedLogisticRegression":
            ready |= {"window": 40, "release_every": 20}
        if kind == "PrivateSelection":
            ready["estimator"] = de.PrivateRidge(bounds=(-1, 1), target_bounds=(-1, 1))
            ready["param_grid"] = {"alpha": [0.1, 1.0]}
        known = cls().get_params(deep=False)
        return cls(**({key: value for key, value in ready.items() if key in known} | options))

    def wanted(kind: str) -> Any:
        """The targets that an estimator of that name learns."""
        return Y > 0 if "classes" in getattr(de, kind)().get_params(deep=False) else Y

    def saved() -> Path:
        made("PrivateRidge").fit(X, Y).save(folder / "model.dps")
        return folder / "model.dps"

    def half(path: Path) -> Path:
        """The file cut in half."""
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
        return path

    def text(name: str, content: str) -> str:
        (folder / name).write_text(content)
        return str(folder / name)

    return {
        "dp": dp,
        "de": de,
        "np": np,
        "pd": pd,
        "copy": copy,
        "pickle": pickle,
        "clone": clone,
        "GridSearchCV": GridSearchCV,
        "SavedModel": SavedModel,
        "export_onnx": export_onnx,
        "load_model": load_model,
        "save_model": save_model,
        "x": X,
        "y": Y,
        "table": TABLE,
        "domain": DOMAIN,
        "words": words,
        "folder": folder,
        "frame": pd.DataFrame(TABLE, columns=["x1", "x2", "y1"]),
        "learner": learner,
        "sums": sums,
        "stream": stream,
        "session": session,
        "grant": grant,
        "kept": kept,
        "made": made,
        "wanted": wanted,
        "saved": saved,
        "half": half,
        "text": text,
    }
