"""Keys of a configuration that are a constructor's own parameters.

What a part may be told is what its constructor takes: a parameter that is added there is a key
here. Types and unknown keys are checked before anything is built; values by the part itself.
"""

import inspect
from collections.abc import Callable, Collection, Mapping
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from pydantic import BeforeValidator, ValidationError, create_model

from dpstream.cli.config import Section, explain_mistake
from dpstream.errors import ConfigurationError
from dpstream.geometry.convex_set import ConvexSet
from dpstream.learners.online.online_algorithm import OnlineAlgorithm
from dpstream.learners.window.source_model import SourceModels
from dpstream.losses.generalised_linear import GeneralisedLinearLoss
from dpstream.losses.loss import Loss
from dpstream.losses.regularised import RegularisedLoss
from dpstream.losses.softmax import SoftmaxLoss
from dpstream.mechanisms.continual.node_noise import NoiseKind
from dpstream.mechanisms.continual.strategy import Strategy
from dpstream.solvers.plan import Solver

HIDDEN = frozenset({"mirror", "weights", "subset", "reproduction"})
"""Parameters that a configuration cannot say."""

NAMED: Mapping[Any, str] = {
    ConvexSet: "set",
    Loss: "loss",
    RegularisedLoss: "loss",
    GeneralisedLinearLoss: "loss",
    SoftmaxLoss: "loss",
    Solver: "solver",
    OnlineAlgorithm: "algorithm",
    SourceModels: "source",
}
"""Parts that are declared by name, or by a table with their name and parameters."""


UNWRITTEN = (Strategy, NoiseKind)
"""Types of which a configuration says the name alone."""


def _named(value: object) -> object:
    if isinstance(value, str) or (isinstance(value, Mapping) and "name" in value):
        return value
    raise ValueError(
        'give a name in quotes, or a table with its parameters: { name = "...", radius = 1.0 }'
    )


Declared = Annotated[Any, BeforeValidator(_named)]
"""A part's name, or a table of its name and parameters."""


def option_type(hint: Any) -> Any:
    """The type of a key for a parameter of that type."""
    if hint in NAMED:
        return Declared
    if get_origin(hint) in (Union, UnionType):
        members = [option_type(part) for part in get_args(hint) if part not in UNWRITTEN]
        return Union[tuple(members)]  # noqa: UP007 (made from values)
    return hint


@cache
def option_model(
    make: Callable[..., Any], supplied: frozenset[str], more: frozenset[str] = frozenset()
) -> type[Section]:
    """The keys of a constructor: its parameters but those that come from elsewhere.

    Args:
        make: a class or a function with annotated parameters.
        supplied: parameters that are no keys.
        more: keys that are no parameters, with their types as ``EXTRA`` has them.
    """
    hints = _hints(make)
    keys: dict[str, Any] = {name: (EXTRA[name], None) for name in sorted(more)}
    for name, parameter in inspect.signature(make).parameters.items():
        if name in supplied or name in HIDDEN:
            continue
        default = parameter.default
        if default is parameter.empty:
            default = None if may_be_none(hints[name]) else ...
        keys[key_of(name)] = (option_type(hints[name]), default)
    return create_model(f"{make.__name__}Options", __base__=Section, **keys)


def left_out(make: Callable[..., Any], given: Collection[str]) -> dict[str, None]:
    """Parameters without a default that were not given and may be None."""
    hints = _hints(make)
    return {
        name: None
        for name, parameter in inspect.signature(make).parameters.items()
        if parameter.default is parameter.empty and name not in given and may_be_none(hints[name])
    }


def part_kinds(make: Callable[..., Any]) -> dict[str, str]:
    """Which parameters of a constructor are parts, and of which kind."""
    found: dict[str, str] = {}
    for name, hint in _hints(make).items():
        for part in (hint, *get_args(hint)):
            if part in NAMED:
                found[name] = NAMED[part]
    return found


def _hints(make: Callable[..., Any]) -> dict[str, Any]:
    return get_type_hints(make.__init__ if inspect.isclass(make) else make)


def may_be_none(hint: Any) -> bool:
    """Whether a parameter of that type may be left out."""
    return NoneType in get_args(hint)


EXTRA: Mapping[str, Any] = {"window": int | None, "decay": float | None}
"""Keys beside a strategy's name: what windowed and decayed sums need."""

_KEYS = {"convex_set": "constraint"}


def key_of(parameter: str) -> str:
    """The key for a parameter: one word for one thing, whichever learner."""
    return _KEYS.get(parameter, parameter)


def read_options(
    model: type[Section], values: Mapping[str, Any], *, section: str
) -> dict[str, Any]:
    """The options that were given, checked; what was not given is left out.

    Raises:
        ConfigurationError: one clause for each mistake, with its key.
    """
    try:
        checked = model.model_validate(values)
    except ValidationError as error:
        known: Collection[str] = model.model_fields
        lines = [
            explain_mistake(dict(item), section=section, known=known)
            for item in error.errors(include_url=False)
        ]
        raise ConfigurationError("; ".join(dict.fromkeys(lines))) from None
    return {name: getattr(checked, name) for name in checked.model_fields_set}
