"""Sums over the last W ticks, every record protected for ever: a Toeplitz root without horizon.

``A(z) = (1 - z^W)/(1 - z)``. Its square root, the best Toeplitz factorisation, has the factor
``(1 - z^W)^(1/2) = 1 - z^W/2 - z^(2W)/8 - ...`` and needs all past increments. Measured is

    C(z) = L(z) (1 - z^W/2)

with ``L`` the BLT of running sums over W ticks: buffers fed with ``x_t - x_{t-W}/2``, exact in
integers one bit finer. The decoder inverts both factors exactly; the noise is within 2 % of the
root's.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dpstream.arrays import FloatArray, IntArray
from dpstream.domain.lattice import ExactVector
from dpstream.errors import ConfigurationError
from dpstream.mechanisms.continual.blt import BufferedDecoder, standard_filter
from dpstream.mechanisms.continual.endless import EndlessEncoder, refresh_period
from dpstream.mechanisms.continual.filtered import FilteredStrategy
from dpstream.mechanisms.continual.recurrence import (
    NODE_HEADROOM,
    RefreshedBank,
)
from dpstream.mechanisms.continual.response import UPWARD, BufferedFilter, ExponentialSum
from dpstream.mechanisms.continual.strategy import Address, Node, Participation

_NEGLIGIBLE = 1e-18


def sliding_toeplitz(*, window: int) -> "SlidingToeplitz":
    """The standard factorisation for sums over the last ``window`` ticks."""
    response = standard_filter(window)
    return SlidingToeplitz(window=window, rates=response.rates, scales=response.scales)


@dataclass(frozen=True, kw_only=True)
class SlidingToeplitz(FilteredStrategy):
    """A sliding-window sum on an endless stream, with noise that protects records for ever.

    Guaranteed: nodes differ from the real code by at most ``node_error``; a record's column has
    finite norm (``sliding.proof.md``). A unit's cap counts its records over the stream's whole
    life, since all of them stay protected.

    Attributes:
        window: W, in ticks.
    """

    window: int

    def __post_init__(self) -> None:
        if self.window < 1:
            raise ConfigurationError(f"the window is {self.window}; it must be at least 1 tick")
        _ = self.filter

    @property
    def name(self) -> str:
        """Its name in the catalogue."""
        return "sliding_toeplitz"

    @property
    def horizon(self) -> int | None:
        """None: it never ends."""
        return None

    @property
    def period(self) -> int:
        """Ticks after which the buffers are refreshed."""
        return refresh_period(self.filter) + self.window

    def sensitivity(self, participation: Participation, *, order: int) -> float:
        """Norm of one unit's largest shift: exact for one record, else ``cap`` times that.

        Coefficients are negative from W on. In order 1 the two halves are added up.
        """
        if order == 1:
            return UPWARD * participation.cap * 1.5 * self.filter.gain
        # c_k = l_k - l_{k-W}/2, so the squares sum to (1 + 1/4) sum l^2 - sum l_k l_{k+W}.
        energy = 1.25 * self.filter.energy(None) - self.filter.correlation(self.window)
        return UPWARD * participation.cap * math.sqrt(energy)

    def rounding_norm(self, participation: Participation, *, order: int) -> float:
        """A record stays in the buffers for two periods after it leaves the window at most."""
        nodes = (2.0 * self.period + self.window) * participation.cap
        return nodes if order == 1 else math.sqrt(nodes)

    def code_bound(self) -> float:
        """One and a half times the filter's gain, with headroom for rounding."""
        return 1.5 * self.filter.gain * NODE_HEADROOM

    @cached_property
    def _rows(self) -> list[ExponentialSum]:
        """The coefficients of ``A/C``, W by W.

        With ``P`` the coefficients of ``1/((1 - z) L)`` they are ``b_k = P_k - P_{k-W} +
        b_{k-W}/2``: in every stretch of W ticks a sum of the same exponentials.
        """
        prefix = self.filter.decoding()
        leap = np.exp(self.window * np.log1p(-prefix.rates))
        loss = np.expm1(self.window * np.log1p(-prefix.rates))
        weights = prefix.weights
        fed = prefix.weights * loss
        rows: list[ExponentialSum] = []
        while float(np.abs(weights).max()) > _NEGLIGIBLE:
            rows.append(ExponentialSum(prefix.rates, weights))
            weights = 0.5 * weights + fed
            fed = fed * leap
        return rows

    @cached_property
    def _row_energies(self) -> FloatArray:
        energies = [row.inner(row, self.window) for row in self._rows]
        return np.concatenate([[0.0], np.cumsum(energies)])

    def variance(self, tick: int) -> float:
        """Variance per coordinate of the decoded sum at ``tick``, for ``sigma = 1``."""
        full, rest = divmod(tick, self.window)
        if full >= len(self._rows):
            return float(self._row_energies[-1])
        row = self._rows[full]
        return float(self._row_energies[full]) + row.inner(row, rest)

    def covariance(self, earlier: int, later: int) -> float:
        """Covariance per coordinate between two ticks' decoded sums, for ``sigma = 1``."""
        ahead, shift = divmod(later - earlier, self.window)
        terms: list[float] = []
        for index, row in enumerate(self._rows[: -(-earlier // self.window)]):
            count = min(self.window, earlier - index * self.window)
            # The later sum's coefficients, ``shift`` further on, straddle two rows.
            near, far = index + ahead, index + ahead + 1
            if near < len(self._rows):
                kept = min(count, self.window - shift)
                terms.append(row.inner(self._rows[near], kept, other_start=shift))
            if far < len(self._rows) and count > self.window - shift:
                start = self.window - shift
                terms.append(row.inner(self._rows[far], count - start, start=start))
        return math.fsum(terms)

    def memory(self, tick: int) -> int:
        """Two vectors per buffer and the window's increments."""
        del tick
        return 2 * len(self.filter.rates) + self.window

    def encoder(
        self, dimension: int, *, increment_exponent: int, node_exponent: int
    ) -> "SlidingEncoder":
        """A fresh encoder."""
        bank = RefreshedBank(
            self.filter,
            dimension,
            period=self.period,
            increment_exponent=increment_exponent - 1,
            node_exponent=node_exponent,
        )
        return SlidingEncoder(
            EndlessEncoder(bank, node_exponent), dimension, self.window, increment_exponent
        )

    def decoder(self, dimension: int) -> "SlidingDecoder":
        """A fresh decoder."""
        return SlidingDecoder(self.filter, dimension, self.window)


class SlidingEncoder:
    """Feeds the buffers with ``x_t - x_{t-W}/2``."""

    def __init__(
        self, inner: EndlessEncoder, dimension: int, window: int, increment_exponent: int
    ) -> None:
        self._inner = inner
        self._exponent = increment_exponent
        self._high = np.zeros((window, dimension), np.int64)
        self._low = np.zeros((window, dimension), np.int64)
        self._place = 0

    def absorb(self, increment: ExactVector) -> None:
        """Close one tick with its exact increment."""
        place = self._place
        fed = increment.copy()
        fed.add(increment)
        fed.subtract(ExactVector(self._high[place], self._low[place], self._exponent))
        fed.exponent -= 1
        self._inner.absorb(fed)
        self._high[place] = increment.high
        self._low[place] = increment.low
        self._place = (place + 1) % len(self._high)

    def nodes(self) -> list[Node]:
        """The nodes of all ticks since the last release."""
        return self._inner.nodes()

    def snapshot(self) -> dict[str, FloatArray | IntArray]:
        """The whole secret state as arrays."""
        return {
            **self._inner.snapshot(),
            "place": np.array([self._place], np.int64),
            "window_high": self._high.copy(),
            "window_low": self._low.copy(),
        }

    def restore(self, arrays: dict[str, FloatArray | IntArray]) -> None:
        """Take up a snapshot."""
        self._inner.restore(arrays)
        self._place = int(arrays["place"][0])
        self._high = arrays["window_high"].astype(np.int64)
        self._low = arrays["window_low"].astype(np.int64)


class SlidingDecoder:
    """Inverts both factors of the filter and adds up the last W increments that come out."""

    def __init__(self, response: BufferedFilter, dimension: int, window: int) -> None:
        self._buffered = BufferedDecoder(response, dimension)
        self._window = np.zeros((window, dimension))
        self._place = 0
        self._sum = np.zeros(dimension)

    def observe(self, address: Address, value: FloatArray) -> None:
        """Take the next tick's measured node, in units of the sum."""
        del address
        oldest = self._window[self._place]
        increment = self._buffered.innovation(value)
        increment += 0.5 * oldest
        self._sum += increment - oldest
        self._window[self._place] = increment
        self._place += 1
        if self._place == len(self._window):
            # Added up afresh once per window, or rounding would pile up for ever.
            self._place = 0
            self._sum = np.zeros_like(self._sum)
            for row in self._window:
                self._sum += row

    def estimate(self, tick: int) -> FloatArray:
        """The decoded sum at the last observed tick, which ``tick`` is."""
        del tick
        return self._sum.copy()

    def snapshot(self) -> dict[str, FloatArray | IntArray]:
        """The whole public state as arrays."""
        return {
            **self._buffered.snapshot(),
            "place": np.array([self._place], np.int64),
            "window": self._window.copy(),
            "window_sum": self._sum.copy(),
        }

    def restore(self, arrays: dict[str, FloatArray | IntArray]) -> None:
        """Take up a snapshot."""
        self._buffered.restore(arrays)
        self._place = int(arrays["place"][0])
        self._window = arrays["window"].astype(np.float64)
        self._sum = arrays["window_sum"].astype(np.float64)
