"""A domain: the public declaration of what of a record may count, and how it is scaled."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import isfinite, sqrt
from typing import Any, Literal

import numpy as np

from dpstream.arrays import FloatArray
from dpstream.domain.admission import Schema, read_records
from dpstream.domain.batch import Batch, RawChunk
from dpstream.domain.cell import UnitHash
from dpstream.domain.column import (
    Boolean,
    Categorical,
    Column,
    Numeric,
    column_from_json,
)
from dpstream.domain.quantise import AffineMap, centre_and_half, quantise
from dpstream.domain.target import IntervalTarget, LabelTarget, Target, target_from_json
from dpstream.domain.user_map import UserMap
from dpstream.errors import ConfigurationError, require_kind

RecordBound = Literal["l2", "max"]

# Widths and norms beyond these would overflow the squares of scaled coordinates.
_LEAST, _LARGEST = 2.0**-128, 2.0**128


@dataclass(frozen=True, init=False)
class Domain:
    """What of a record may count: its columns and targets with their bounds, all public.

    ``Domain([Numeric("age", 18.0, 90.0)], [IntervalTarget("income", 0.0, 1500.0)])`` declares named
    columns; ``Domain.vectors`` a plain matrix. Values beyond bounds are clipped; a record with a
    missing or infinite value is null.

    How a record is scaled: each bounded column is mapped to [-1, 1] (a category's indicators to 0
    and 1), then the x part is divided by its radius so that its L2 norm is at most 1:

    - record bound ``"l2"``: the radius is ``norm_bound`` if one is given, and records beyond it
      are clipped by norm; without one it is the largest norm the column bounds allow, the square
      root of the number of columns, and only column bounds clip.
    - record bound ``"max"``: the radius is the square root of the number d of encoded features,
      so that each coordinate is bounded by ``1/sqrt(d)``.

    Targets are mapped to [-1, 1] and, k of them, divided by ``sqrt(k)``. With an intercept the
    maps centre the bounds on zero; without one they only scale, so that the model has no
    constant in the user's units either.

    Attributes:
        columns: the features, in order.
        targets: several interval targets, or one label target, or none.
        intercept: whether models on this domain have a constant (the 1 of z = (1, x, y)).
        record_bound: ``"l2"`` or ``"max"``.
        norm_bound: the public bound on the x part's L2 norm after the column maps, or None.
    """

    columns: tuple[Column, ...]
    targets: tuple[Target, ...]
    intercept: bool
    record_bound: RecordBound
    norm_bound: float | None

    def __init__(
        self,
        columns: Sequence[Column],
        targets: Sequence[Target] | Target = (),
        *,
        intercept: bool = True,
        record_bound: RecordBound = "l2",
        norm_bound: float | None = None,
    ) -> None:
        require_kind(
            columns,
            (list, tuple),
            "columns",
            "list them: [Numeric('age', 0, 120), Categorical('town', ['here', 'there'])]",
        )
        require_kind(
            targets,
            (list, tuple, IntervalTarget, LabelTarget),
            "targets",
            "give IntervalTarget('income', 0, 1500), LabelTarget('late', ['no', 'yes']), or a list",
        )
        if norm_bound is not None:
            require_kind(norm_bound, (int, float, np.number), "norm_bound", "give a number")
        declared: tuple[Target, ...] = (
            (targets,) if isinstance(targets, IntervalTarget | LabelTarget) else tuple(targets)
        )
        object.__setattr__(self, "columns", tuple(columns))
        object.__setattr__(self, "targets", declared)
        object.__setattr__(self, "intercept", intercept)
        object.__setattr__(self, "record_bound", record_bound)
        object.__setattr__(self, "norm_bound", None if norm_bound is None else float(norm_bound))
        self._check()

    @classmethod
    def vectors(
        cls,
        dimension: int,
        *,
        norm_bound: float,
        target_bound: float | None = None,
        target_count: int = 1,
        intercept: bool = False,
        record_bound: RecordBound = "l2",
    ) -> "Domain":
        """The domain of plain matrices with ``dimension`` columns.

        Columns are named ``x1, x2, ...`` and targets ``y1, y2, ...``.

        Args:
            dimension: number of features.
            norm_bound: bound on a row's norm: its L2 norm, or with record bound ``"max"`` its
                largest absolute coordinate.
            target_bound: bound on each target's absolute value; None for no targets.
            target_count: number of targets.
            intercept: whether models have a constant.
            record_bound: ``"l2"`` or ``"max"``.
        """
        require_kind(dimension, int, "dimension", "give a whole number of columns")
        largest = record_bound == "max"
        columns = [
            Numeric(f"x{j}", -norm_bound, norm_bound) if largest else Numeric(f"x{j}")
            for j in range(1, dimension + 1)
        ]
        targets = [
            IntervalTarget(f"y{j}", -target_bound, target_bound)
            for j in range(1, target_count + 1)
            if target_bound is not None
        ]
        return cls(
            columns,
            targets,
            intercept=intercept,
            record_bound=record_bound,
            norm_bound=None if largest else norm_bound,
        )

    def _check(self) -> None:
        for column in self.columns:
            require_kind(
                column,
                (Numeric, Boolean, Categorical),
                "a column",
                "declare Numeric('age', 0, 120)",
            )
        for target in self.targets:
            require_kind(
                target,
                (IntervalTarget, LabelTarget),
                "a target",
                "declare IntervalTarget('income', 0, 1500) or LabelTarget('late', ['no', 'yes'])",
            )
        names = [item.name for item in (*self.columns, *self.targets)]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ConfigurationError(f"column {twice[0]!r} is declared twice")
        if not self.columns:
            raise ConfigurationError("the domain has no columns; declare at least one")
        labels = [target for target in self.targets if isinstance(target, LabelTarget)]
        if labels and len(self.targets) > 1:
            raise ConfigurationError(
                f"target {labels[0].name!r} is a class label; it must be the only target"
            )
        if self.record_bound not in ("l2", "max"):
            raise ConfigurationError(
                f"record bound is {self.record_bound!r}; it must be 'l2' or 'max'"
            )
        if self.norm_bound is not None:
            if self.record_bound == "max":
                raise ConfigurationError(
                    "norm_bound belongs to record bound 'l2'; with 'max' the columns' bounds rule"
                )
            if not (isfinite(self.norm_bound) and _LEAST <= self.norm_bound <= _LARGEST):
                raise ConfigurationError(
                    f"norm_bound is {self.norm_bound}; it must be a positive finite number"
                )
        for column in self.columns:
            if isinstance(column, Numeric) and column.lower is None and self.norm_bound is None:
                raise ConfigurationError(
                    f"column {column.name!r} has no bounds; give lower and upper, or the record "
                    "bound 'l2' with a norm_bound"
                )
        for item in (*self.columns, *self.targets):
            if isinstance(item, Numeric | IntervalTarget) and item.lower is not None:
                assert item.upper is not None
                half = centre_and_half(item.lower, item.upper, self.intercept)[1]
                if not _LEAST <= half <= _LARGEST:
                    raise ConfigurationError(
                        f"column {item.name!r} has bounds [{item.lower}, {item.upper}], too narrow "
                        "or too wide for exact arithmetic; rescale the column"
                    )

    # --- shape -------------------------------------------------------------------------------

    @cached_property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the encoded features; a category's indicator is ``column=level``."""
        names: list[str] = []
        for column in self.columns:
            if isinstance(column, Categorical):
                names += [f"{column.name}={level}" for level in column.coded_levels(self.intercept)]
            else:
                names.append(column.name)
        return tuple(names)

    @cached_property
    def target_names(self) -> tuple[str, ...]:
        """Names of the encoded targets; one of three or more classes is ``target=label``."""
        names: list[str] = []
        for target in self.targets:
            if isinstance(target, LabelTarget) and target.width > 1:
                names += [f"{target.name}={label}" for label in target.labels]
            else:
                names.append(target.name)
        return tuple(names)

    @property
    def dimension(self) -> int:
        """d, the number of encoded features."""
        return len(self.feature_names)

    @property
    def target_count(self) -> int:
        """k, the number of encoded targets."""
        return len(self.target_names)

    @property
    def width(self) -> int:
        """Of z = (1, x, y): ``1 + d + k``."""
        return 1 + self.dimension + self.target_count

    # --- scaling -----------------------------------------------------------------------------

    @cached_property
    def radius(self) -> float:
        """The x part is divided by this after the column maps."""
        if self.record_bound == "max":
            return sqrt(self.dimension)
        bounded = all(
            not isinstance(column, Numeric) or column.lower is not None for column in self.columns
        )
        largest = sqrt(len(self.columns))
        if self.norm_bound is None:
            return largest
        return min(self.norm_bound, largest) if bounded else self.norm_bound

    @cached_property
    def feature_map(self) -> AffineMap:
        """The map of the x part into the unit ball."""
        intervals: list[tuple[float, float] | None] = []
        for column in self.columns:
            match column:
                case Numeric(lower=float() as lower, upper=float() as upper):
                    intervals.append((lower, upper))
                case Numeric():
                    intervals.append(None)
                case Boolean():
                    intervals.append((0.0, 1.0))
                case Categorical():
                    # An indicator is 0 or 1 already.
                    intervals += [None] * len(column.coded_levels(self.intercept))
        return AffineMap.of_bounds(intervals, centred=self.intercept, radius=self.radius)

    @cached_property
    def target_map(self) -> AffineMap:
        """The map of the y part into the unit ball."""
        intervals: list[tuple[float, float] | None] = []
        for target in self.targets:
            if isinstance(target, IntervalTarget):
                intervals.append((target.lower, target.upper))
            else:
                intervals += [None] * target.width  # encoded as -1, 0 or 1 already
        labelled = any(isinstance(target, LabelTarget) for target in self.targets)
        radius = 1.0 if labelled else sqrt(max(1, len(intervals)))
        return AffineMap.of_bounds(intervals, centred=self.intercept, radius=radius)

    @cached_property
    def _record_map(self) -> AffineMap:
        return self.feature_map.beside(self.target_map)

    # --- data --------------------------------------------------------------------------------

    def admit(
        self,
        data: Any,
        targets: Any = None,
        *,
        unit_column: str | None = None,
        unit_hash: UnitHash | None = None,
        time_column: str | None = None,
    ) -> Batch:
        """Bound every record: clip, quantise, or make it null.

        The admitted record depends on that raw record alone, never on its neighbours or on
        how the stream was batched. Extra columns are ignored; values outside their bounds are
        clipped; an undeclared category is ``"other"``; a missing, NaN or infinite value, or an
        undeclared class label, makes the record null, and it keeps its place.

        Args:
            data: a ``RawChunk``; a mapping of columns; a sequence of mappings; a data frame or
                table that narwhals knows; or a matrix whose columns are the declared ones in
                order (followed by the targets, unless ``targets`` is given).
            targets: the targets, as a vector or a matrix, when they come apart from the data.
            unit_column: the column with the unit's identifier, for user-level protection; a
                record without one is null.
            unit_hash: a keyed hash from an identifier's bytes to 16 opaque bytes.
            time_column: the column with the public clock: numbers, or ISO 8601 dates and times.

        Raises:
            SchemaError: if a declared column is missing, the width is wrong, or a value is text
                where a number is declared. The message names the column and the line, never the
                content.
        """
        if isinstance(data, RawChunk) and data.length == 0:
            return Batch.empty(
                self.dimension,
                self.target_count,
                units=unit_column is not None,
                times=time_column is not None,
            )
        records = read_records(
            Schema(self.columns, self.targets, self.intercept),
            data,
            targets,
            unit_column=unit_column,
            unit_hash=unit_hash,
            time_column=time_column,
        )
        rows = quantise(records.values, self._record_map, self.dimension)
        return Batch(rows, self.dimension, records.units, records.times)

    def features(self, data: Any) -> FloatArray:
        """The scaled feature vectors of rows to predict, ``(n, d)``; not for training.

        Column bounds and categories apply as in training; the norm bound and the grid do not,
        so that prediction is linear in every value within its bounds. A row with a missing
        value has NaN.
        """
        records = read_records(Schema(self.columns, (), self.intercept), data, None)
        return self.feature_map.apply(records.values)

    # --- the user's units --------------------------------------------------------------------

    def user_map(self, target: int = 0) -> UserMap:
        """How the parameters of one scaled target become the user's."""
        return UserMap.between(self.feature_map, self.target_map, target)

    def to_user(
        self, coefficients: FloatArray, intercept: float = 0.0, *, target: int = 0
    ) -> tuple[FloatArray, float]:
        """Coefficients and intercept in the user's units, from scaled ones.

        Args:
            coefficients: ``(d,)``, of the scaled features on the scaled target.
            intercept: of the scaled target.
            target: which encoded target they predict.
        """
        mapping = self.user_map(target)
        parameters = mapping.matrix @ np.concatenate(([intercept], coefficients)) + mapping.offset
        return parameters[1:], float(parameters[0])

    def user_targets(self, scaled: FloatArray) -> FloatArray:
        """Predictions in the user's units, from scaled ones, ``(n, k)``."""
        return scaled / self.target_map.scale + self.target_map.centre

    # --- description -------------------------------------------------------------------------

    def to_json(self) -> dict[str, Any]:
        """The whole public declaration; ``from_json`` restores it."""
        return {
            "columns": [column.to_json() for column in self.columns],
            "targets": [target.to_json() for target in self.targets],
            "intercept": self.intercept,
            "record_bound": self.record_bound,
            "norm_bound": self.norm_bound,
        }

    @classmethod
    def from_json(cls, description: Mapping[str, Any]) -> "Domain":
        """The domain of a public declaration."""
        return cls(
            [column_from_json(column) for column in description["columns"]],
            [target_from_json(target) for target in description["targets"]],
            intercept=description["intercept"],
            record_bound=description["record_bound"],
            norm_bound=description["norm_bound"],
        )
