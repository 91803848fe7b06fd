"""``PublicHashing``: categories of any vocabulary as signed buckets of a public hash."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Any

import narwhals as nw
import numpy as np
from sklearn.utils.validation import check_is_fitted, validate_data

from dpstream.arrays import FloatArray
from dpstream.domain.cell import is_missing
from dpstream.domain.column import Numeric, level_text
from dpstream.domain.domain import Domain
from dpstream.errors import ConfigurationError
from dpstream.estimators.bounds import Bounded, BoundedArray
from dpstream.estimators.records import is_frame, table
from dpstream.estimators.transformer import PublicTransformer, require_seed


@dataclass(kw_only=True, eq=False, repr=False)
class PublicHashing(PublicTransformer):
    """Every value of every column adds +1 or -1 to one of ``n_features`` buckets.

    scikit-learn's ``FeatureHasher`` for columns: no vocabulary is needed, nothing is learned, and
    a row's length is at most the square root of the number of columns (rows that collisions make
    longer are shortened to that), which is handed on as its bound.

    Attributes:
        n_features: how many buckets.
        seed: of the hash; public.
    """

    n_features: int = 64
    seed: int = 0

    def _declare(self, data: Any, names: list[str]) -> tuple[Domain, Bounded]:
        count = self.n_features
        if isinstance(count, bool) or not hasattr(count, "__index__") or count < 1:
            raise ConfigurationError(
                f"{type(self).__name__} has n_features={count!r}; it must be a whole number from 1"
            )
        require_seed(self.seed, owner=type(self).__name__)
        free = tuple(Numeric(f"hash{place}") for place in range(count))
        provenance = {
            column.name: f"{type(self).__name__} with the public seed {self.seed}"
            for column in free
        }
        domain = Domain([Numeric(name) for name in names], norm_bound=1.0)
        return domain, Bounded(columns=free, norm=sqrt(len(names)), provenance=provenance)

    def transform(self, X: Any) -> FloatArray:
        """The buckets, which carry their bound.

        Args:
            X: rows of the same columns, of any values.
        """
        check_is_fitted(self, "bounded_")
        rows = table(X, owner=type(self).__name__)
        validate_data(self, X=rows, skip_check_array=True, reset=False)
        values = np.zeros((int(rows.shape[0]), self.n_features))
        for place, name in enumerate(self._names):
            self._add(values, name, _cells(rows, place))
        lengths = np.linalg.norm(values, axis=1)
        longest = sqrt(len(self._names))
        over = lengths > longest
        values[over] *= (longest / lengths[over])[:, None]
        return BoundedArray.of(values, self.bounded_)

    def _add(self, values: FloatArray, name: str, cells: Sequence[Any]) -> None:
        known: dict[str, tuple[int, float]] = {}
        for row, cell in enumerate(cells):
            if is_missing(cell):
                values[row] = np.nan
                continue
            text = level_text(cell)
            bucket = known.get(text)
            if bucket is None:
                bucket = known[text] = self._bucket(name, text)
            values[row, bucket[0]] += bucket[1]

    def _bucket(self, name: str, text: str) -> tuple[int, float]:
        key = f"{self.seed}\0{name}\0{text}".encode("utf-8", "surrogatepass")
        number = int.from_bytes(hashlib.blake2b(key, digest_size=16).digest(), "big")
        return (number >> 1) % self.n_features, 1.0 if number & 1 else -1.0

    def _map(self, values: FloatArray) -> FloatArray:
        return values

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = tags.input_tags.categorical = True
        return tags


def _cells(rows: Any, place: int) -> Sequence[Any]:
    if is_frame(rows):
        return nw.from_native(rows, eager_only=True)[:, place].to_list()
    return np.asarray(rows)[:, place].tolist()
