"""Linear regressions by measured moments: ``PrivateRidge`` and its kin."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from dpstream.arrays import FloatArray
from dpstream.errors import ConfigurationError
from dpstream.estimators.scoring import NumberEstimator, positive
from dpstream.estimators.stream_estimator import Declaration
from dpstream.geometry.l1_ball import L1Ball
from dpstream.learners.incremental.priv_inc_reg1 import PrivIncReg1
from dpstream.learners.incremental.priv_inc_reg2 import PrivIncReg2
from dpstream.learners.learner import Learner
from dpstream.learners.window.windowed_regression import WindowedRegression


@dataclass(frozen=True, kw_only=True)
class Intervals:
    """95 % intervals in the user's units.

    Attributes:
        coef: ``(features, 2)``, for the population's coefficients: noise and sampling together.
        intercept: ``(2,)``, or None without a constant.
        coef_noise: ``(features, 2)``, for what the same records give without noise.
        intercept_noise: ``(2,)``, or None.
    """

    coef: FloatArray
    intercept: FloatArray | None
    coef_noise: FloatArray
    intercept_noise: FloatArray | None


@dataclass(kw_only=True, eq=False, repr=False)
class LinearEstimator(NumberEstimator):
    """What linear regressions share: ``intervals_``."""

    @property
    def intervals_(self) -> Intervals:
        """95 % intervals of coefficients and intercept.

        Raises:
            AttributeError: if the learner gives none.
        """
        check_is_fitted(self, "release_")
        user = self.release_.value["targets"][0]["user"]
        slopes, head = user["coefficients"], user["intercept"]
        if slopes.get("total_interval") is None:
            raise AttributeError(
                f"{self._name} knows no intervals: of forgetting and of projected features their "
                "law is not known. Take PrivateRidge, or a window with intervals=True"
            )
        return Intervals(
            coef=np.array(slopes["total_interval"], np.float64),
            intercept=None if head is None else np.array(head["total_interval"], np.float64),
            coef_noise=np.array(slopes["noise_interval"], np.float64),
            intercept_noise=None if head is None else np.array(head["noise_interval"], np.float64),
        )


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateLinearRegression(LinearEstimator):
    """Least squares, kept fresh: ``sum (y_i - <x_i, coef> - intercept)^2``.

    Where the noise drowns a direction, the solver shrinks along it; ``intervals_`` says how well
    each coefficient is known.

    Attributes:
        intervals: whether to compute ``intervals_``.
    """

    intervals: bool = True

    def _make_learner(self, declared: Declaration) -> Learner[Any]:
        return PrivIncReg1(**declared.shared, horizon=declared.horizon, intervals=self.intervals)


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateRidge(LinearEstimator):
    """Ridge regression, kept fresh: least squares ``+ alpha |coef|^2 + lasso |coef|_1``.

    With both penalties it is the elastic net, with ``alpha=0.0`` the Lasso's penalised form.

    Attributes:
        alpha: the penalty, on coefficients in scaled units: every column mapped to [-1, 1] (or by
            ``norm_bound``) and the record to the unit ball, the target to [-1, 1]. It costs no
            privacy.
        lasso: the L1 penalty, likewise; above 0 it makes coefficients exactly 0.
        intervals: whether to compute ``intervals_``.
    """

    alpha: float = 1.0
    lasso: float = 0.0
    intervals: bool = True

    def _make_learner(self, declared: Declaration) -> Learner[Any]:
        ridge = positive("alpha", self.alpha, self._name, zero=True)
        return PrivIncReg1(
            **declared.shared,
            horizon=declared.horizon,
            ridge=ridge,
            lasso=positive("lasso", self.lasso, self._name, zero=True),
            intervals=self.intervals,
        )


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateLasso(LinearEstimator):
    """The Lasso, kept fresh: least squares over coefficients of L1 norm at most ``radius``.

    The constrained form, which for some ``alpha`` of scikit-learn's has the same solution.

    Attributes:
        radius: of the L1 ball, on coefficients in scaled units (see ``PrivateRidge``).
        intervals: whether to compute ``intervals_``, which takes most of a fit's time.
    """

    radius: float = 1.0
    intervals: bool = True

    def _make_learner(self, declared: Declaration) -> Learner[Any]:
        radius = positive("radius", self.radius, self._name)
        ball = L1Ball(dimension=declared.domain.dimension, radius=radius)
        return PrivIncReg1(
            **declared.shared,
            horizon=declared.horizon,
            constraint=ball,
            intervals=self.intervals,
        )


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateProjectedLasso(LinearEstimator):
    """The Lasso on randomly projected features: for very many columns and few non-zeros.

    Attributes:
        radius: of the L1 ball, in scaled units.
        projection_seed: to name the public projection; None draws one for every stream.
        projected_dimension: to how many features; ``"paper"`` for the paper's formula.
        expected_records: for choosing it; public.
    """

    radius: float = 1.0
    projection_seed: int | None = None
    projected_dimension: Any = "auto"
    expected_records: int | None = None

    def _make_learner(self, declared: Declaration) -> Learner[Any]:
        radius = positive("radius", self.radius, self._name)
        return PrivIncReg2(
            **declared.shared,
            horizon=declared.horizon,
            constraint=L1Ball(dimension=declared.domain.dimension, radius=radius),
            projection_seed=self.projection_seed,
            projected_dimension=self.projected_dimension,
            expected_records=self.expected_records or declared.tick_records,
        )


@dataclass(kw_only=True, eq=False, repr=False)
class WindowedLinearRegression(LinearEstimator):
    """Least squares on the newest records alone, for ever.

    A record keeps its protection after it has left the window.

    Attributes:
        window: releases that a record counts for (of ``release_every`` records each, or calls);
            None with ``decay``.
        decay: what one release leaves of a record's weight, above 0 and below 1; None with a
            window.
        alpha: ridge penalty, in scaled units.
        lasso: L1 penalty, in scaled units.
        intervals: whether to compute ``intervals_``; for windows alone.
    """

    window: int | None = None
    decay: float | None = None
    alpha: float = 0.0
    lasso: float = 0.0
    intervals: bool = False

    def _make_learner(self, declared: Declaration) -> Learner[Any]:
        if declared.horizon is not None:
            raise ConfigurationError(
                f"{self._name} runs for ever, and horizon={declared.horizon} would gain nothing; "
                "leave it out"
            )
        return WindowedRegression(
            **declared.shared,
            window_ticks=self.window,
            decay=self.decay,
            ridge=positive("alpha", self.alpha, self._name, zero=True),
            lasso=positive("lasso", self.lasso, self._name, zero=True),
            intervals=self.intervals,
        )
