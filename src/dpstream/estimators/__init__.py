"""scikit-learn and River estimators over one-budget streams; each is loaded when first used."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dpstream.estimators.grant import Grant, Rehearsal
    from dpstream.estimators.hashing import PublicHashing
    from dpstream.estimators.linear import (
        PrivateLasso,
        PrivateLinearRegression,
        PrivateProjectedLasso,
        PrivateRidge,
        WindowedLinearRegression,
    )
    from dpstream.estimators.mean import PrivateMean
    from dpstream.estimators.one_hot import PublicOneHot
    from dpstream.estimators.projection import PublicRandomProjection
    from dpstream.estimators.river_model import RiverClassifier, RiverRegressor
    from dpstream.estimators.scaler import PublicScaler
    from dpstream.estimators.scores import (
        PrivateLogisticRegression,
        PrivateSGDClassifier,
        PrivateSGDRegressor,
    )
    from dpstream.estimators.selection import PrivateSelection
    from dpstream.estimators.windowed import WindowedLogisticRegression

_HOMES = {
    "grant": ("Grant", "Rehearsal"),
    "hashing": ("PublicHashing",),
    "linear": (
        "PrivateLasso",
        "PrivateLinearRegression",
        "PrivateProjectedLasso",
        "PrivateRidge",
        "WindowedLinearRegression",
    ),
    "mean": ("PrivateMean",),
    "one_hot": ("PublicOneHot",),
    "projection": ("PublicRandomProjection",),
    "river_model": ("RiverClassifier", "RiverRegressor"),
    "scaler": ("PublicScaler",),
    "scores": ("PrivateLogisticRegression", "PrivateSGDClassifier", "PrivateSGDRegressor"),
    "selection": ("PrivateSelection",),
    "windowed": ("WindowedLogisticRegression",),
}

_NEEDS = {"river_model": ("river", "river"), "grant": (None, None)}

__all__ = [
    "Grant",
    "PrivateLasso",
    "PrivateLinearRegression",
    "PrivateLogisticRegression",
    "PrivateMean",
    "PrivateProjectedLasso",
    "PrivateRidge",
    "PrivateSGDClassifier",
    "PrivateSGDRegressor",
    "PrivateSelection",
    "PublicHashing",
    "PublicOneHot",
    "PublicRandomProjection",
    "PublicScaler",
    "Rehearsal",
    "RiverClassifier",
    "RiverRegressor",
    "WindowedLinearRegression",
    "WindowedLogisticRegression",
]


def __getattr__(name: str) -> Any:
    for module, names in _HOMES.items():
        if name in names:
            package, extra = _NEEDS.get(module, ("sklearn", "sklearn"))
            try:
                value = getattr(import_module(f"{__name__}.{module}"), name)
            except ModuleNotFoundError as error:
                if package is None or error.name is None or error.name.split(".")[0] != package:
                    raise
                raise ModuleNotFoundError(
                    f"{name} needs {package}, which is not installed; "
                    f"run: pip install 'dpstream[{extra}]'",
                    name=error.name,
                ) from None
            globals()[name] = value
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
