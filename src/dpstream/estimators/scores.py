"""Models of scores: ``PrivateLogisticRegression``, ``PrivateSGDClassifier`` and their kin.

Three ways to learn, by the parameter ``solver``:

- ``"leader"``: the running sum of gradients at released models (DP-FTRL); one event for life,
  records are not kept. The default.
- ``"iterate"``: one step per record on a secret iterate, published through noise.
- the name of a batch solver (``"noisy_sgd"``, ``"output_perturbation"``, ...) or ``"auto"``, which
  simulates them all on synthetic records: the whole history is fitted again at every release, for
  its share of the budget.
"""

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets

from dpstream.arrays import FloatArray
from dpstream.domain.column import level_text
from dpstream.domain.target import LabelTarget
from dpstream.errors import ConfigurationError
from dpstream.estimators.scoring import NumberEstimator, ScoringEstimator, positive
from dpstream.estimators.stream_estimator import Declaration
from dpstream.geometry.l2_ball import L2Ball
from dpstream.learners.incremental.priv_inc_erm import PrivIncERM
from dpstream.learners.learner import Learner
from dpstream.learners.online.follow_the_leader import FollowTheLeader
from dpstream.learners.online.gradient_stack import StackLoss
from dpstream.learners.online.pigd import ImplicitGradientDescent
from dpstream.learners.online.pocp import POCP
from dpstream.losses.hinge import HingeLoss, SmoothedHingeLoss
from dpstream.losses.huber import HuberLoss, PseudoHuberLoss
from dpstream.losses.logistic import LogisticLoss
from dpstream.losses.quantile import QuantileLoss
from dpstream.losses.regularised import RegularisedLoss
from dpstream.losses.softmax import SoftmaxLoss
from dpstream.losses.squared import SquaredLoss
from dpstream.release import Release
from dpstream.solvers.choice import batch_solvers, rank
from dpstream.solvers.plan import Solver
from dpstream.solvers.problem import Problem

Model = Mapping[str, Any]

LEADER, ITERATE, AUTO = "leader", "iterate", "auto"

REGRESSION_LOSSES: Mapping[str, Callable[[], StackLoss]] = {
    "squared_error": SquaredLoss,
    "huber": HuberLoss,
    "pseudo_huber": PseudoHuberLoss,
    "absolute_error": QuantileLoss,
}
LABEL_LOSSES: Mapping[str, Callable[[], StackLoss]] = {
    "log_loss": LogisticLoss,
    "hinge": HingeLoss,
    "smoothed_hinge": SmoothedHingeLoss,
}
GUESSED_BENDS: Mapping[type, float] = {HingeLoss: 0.25, QuantileLoss: 1.0}
"""Of losses with kinks: public guesses of how they bend in the mean, which steer steps alone."""


@dataclass(kw_only=True, eq=False, repr=False)
class LossEstimator(ScoringEstimator):
    """What models of a loss share.

    Attributes:
        solver: ``"leader"``, ``"iterate"``, ``"auto"``, or the name of a batch solver.
        alpha: the ridge ``(alpha / 2) |coef|^2`` per record, in scaled units (see
            ``PrivateRidge``); it costs no privacy. ``"iterate"`` needs one above 0.
        radius: of the ball of coefficients in scaled units; only batch solvers need it.
        slope_clip: bound to which a record's slope is clipped, in scaled units; None for the
            loss's own, and 1 for the squared error, which has none.
    """

    solver: str = LEADER
    alpha: float = 0.0
    radius: float = 4.0
    slope_clip: float | None = None

    @abstractmethod
    def _loss(self, declared: Declaration) -> StackLoss:
        """The loss of a record."""

    def _make_learner(self, declared: Declaration) -> Learner[Any]:
        loss = self._loss(declared)
        alpha = positive("alpha", self.alpha, self._name, zero=self.solver != ITERATE)
        clip = 1.0 if self.slope_clip is None and isinstance(loss, SquaredLoss) else self.slope_clip
        if self.solver == LEADER:
            return FollowTheLeader(
                **declared.shared,
                horizon=declared.horizon,
                loss=loss,
                ridge=alpha,
                slope_clip=clip,
                bend=GUESSED_BENDS.get(type(loss)),
                count=not declared.counted,
            )
        if not declared.counted:
            raise ConfigurationError(
                f"{self._name} has interval={self.interval!r} and solver={self.solver!r}, which "
                "needs a public number of records; use solver='leader'"
            )
        if self.solver == ITERATE:
            if isinstance(loss, SoftmaxLoss):
                raise ConfigurationError(
                    "Only binary classification is supported. The type of the target is "
                    f"multiclass, and {self._name} has solver='iterate'; use solver='leader'"
                )
            return POCP(
                **declared.shared,
                releases=declared.horizon,
                algorithm=ImplicitGradientDescent(),
                loss=loss,
                modulus=alpha,
                slope_clip=clip,
            )
        return self._batch_learner(declared, loss, alpha)

    def _batch_learner(self, declared: Declaration, loss: StackLoss, alpha: float) -> PrivIncERM:
        rows = loss.classes if isinstance(loss, SoftmaxLoss) else 1
        width = declared.domain.dimension + int(declared.domain.intercept)
        radius = positive("radius", self.radius, self._name)
        whole = RegularisedLoss(loss=loss, ridge=alpha) if alpha else loss
        ball = L2Ball(dimension=rows * width, radius=radius)
        return PrivIncERM(
            **declared.shared,
            horizon=declared.horizon,
            loss=whole,
            constraint=ball,
            solver=self._batch_solver(declared, whole, ball),
            tick_records=declared.tick_records,
            refit_every=1,
        )

    def _batch_solver(
        self, declared: Declaration, loss: StackLoss | RegularisedLoss, ball: L2Ball
    ) -> Solver:
        known = batch_solvers()
        if self.solver in known:
            return known[self.solver]
        if self.solver != AUTO:
            names = ", ".join([LEADER, ITERATE, AUTO, *known])
            raise ConfigurationError(f"{self._name} has solver={self.solver!r}; known: {names}")
        problem = Problem(
            loss=loss,
            convex_set=ball,
            domain=declared.domain,
            records=declared.tick_records,
            neighbours=declared.neighbours,
            unit=declared.unit,
        )
        return rank(problem, declared.budget).best.solver

    def _chosen(self, name: str, losses: Mapping[str, Callable[[], StackLoss]]) -> StackLoss:
        if name not in losses:
            raise ConfigurationError(f"{self._name} has loss={name!r}; known: {', '.join(losses)}")
        return losses[name]()


@dataclass(kw_only=True, eq=False, repr=False)
class LabelEstimator(ClassifierMixin, LossEstimator):
    """What classifiers share.

    Attributes:
        classes: the public list of labels; a record with another one is null. It may also be given
            to ``partial_fit``; on a ``Rehearsal``, whose records are public, it may be left out.
    """

    classes: Any = None

    def _target(self, y: Any, name: str, *, rehearsed: bool) -> LabelTarget:
        given = self.classes if self.classes is not None else getattr(self, "_given_classes", None)
        if given is None:
            if not rehearsed:
                raise ConfigurationError(
                    f"{self._name} does not know its classes; they are public and never learned "
                    "from the records: give classes=[...], or partial_fit(X, y, classes=[...])"
                )
            given = _public_labels(y, self._name)
        if isinstance(given, str) or np.ndim(given) != 1:
            raise ConfigurationError(f"{self._name} has classes={given!r}; give the list of labels")
        labels = np.unique(np.asarray(given))
        if len(labels) < 2:
            raise ConfigurationError(
                f"{self._name} has one class in {labels.tolist()!r}; a choice needs two classes"
            )
        self.classes_ = labels
        return LabelTarget(name, [level_text(label) for label in labels.tolist()])

    def fit(self, X: Any, y: Any, *, users: Any = None, timestamps: Any = None) -> Self:
        """Begin a stream with these records; spends the grant.

        Args:
            X: records: a matrix, or a pandas, polars or pyarrow table.
            y: a label for each.
            users: whose record each is, with ``user_cap``.
            timestamps: the public clock of each, with ``interval``.
        """
        self._given_classes = None
        return self._learn(X, y, users, timestamps, begin=True)

    def partial_fit(
        self, X: Any, y: Any, classes: Any = None, *, users: Any = None, timestamps: Any = None
    ) -> Self:
        """Continue the stream with the records that follow; begins it if there is none.

        Args:
            X: the next records.
            y: a label for each.
            classes: the public list of labels, at the first call; not computed from private ones.
            users: whose record each is, with ``user_cap``.
            timestamps: the public clock of each, with ``interval``.
        """
        if classes is not None:
            known = getattr(self, "classes_", None)
            if known is not None and set(np.asarray(classes).tolist()) != set(known.tolist()):
                raise ConfigurationError(
                    f"{self._name} began with classes {known.tolist()!r}, and partial_fit got "
                    "others; a stream's labels are declared once"
                )
            self._given_classes = classes
        return self._learn(X, y, users, timestamps, begin=False)

    def _publish(self, release: Release[Model]) -> None:
        super()._publish(release)
        self.coef_ = self.model_.coefficients
        self.intercept_ = self.model_.intercepts

    def decision_function(self, X: Any) -> FloatArray:
        """Scores: one per row for two classes, else one per class.

        Args:
            X: rows of the declared columns.
        """
        scores = self._scores(X)
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def predict(self, X: Any) -> np.ndarray[Any, Any]:
        """The likeliest label of each row.

        Args:
            X: rows of the declared columns.
        """
        scores = self._scores(X)
        return self.classes_[self.model_.choices(scores)]

    def _check_chances(self) -> bool:
        if getattr(self, "loss", "log_loss") != "log_loss":
            raise AttributeError(
                f"predict_proba needs loss='log_loss'; {self._name} has "
                f"loss={getattr(self, 'loss', None)!r}"
            )
        return True

    @available_if(_check_chances)
    def predict_proba(self, X: Any) -> FloatArray:
        """Probabilities of the labels, in the order of ``classes_``.

        Args:
            X: rows of the declared columns.
        """
        scores = self._scores(X)
        return self.model_.chances(scores)

    @available_if(_check_chances)
    def predict_log_proba(self, X: Any) -> FloatArray:
        """Their logarithms.

        Args:
            X: rows of the declared columns.
        """
        return np.log(self.predict_proba(X))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # At any epsilon worth having, some hundred records are mostly noise.
        tags.classifier_tags.poor_score = True
        tags.classifier_tags.multi_class = (
            getattr(self, "loss", "log_loss") == "log_loss" and self.solver != ITERATE
        )
        return tags


def _public_labels(y: np.ndarray[Any, Any], owner: str) -> np.ndarray[Any, Any]:
    """Targets of a rehearsal, which are public, as the list of labels."""
    if y.dtype.kind == "O":
        y = np.asarray(y.tolist())
    if y.dtype.kind == "f" and not np.isfinite(y).all():
        raise ValueError(
            f"Input y contains NaN or infinity, which are no classes; give {owner} classes=[...], "
            "and such records are null"
        )
    check_classification_targets(y)
    return y


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateLogisticRegression(LabelEstimator):
    """Logistic regression, kept fresh; softmax for three classes or more."""

    def _loss(self, declared: Declaration) -> StackLoss:
        width = declared.domain.target_count
        return LogisticLoss() if width == 1 else SoftmaxLoss(classes=width)


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateSGDClassifier(LabelEstimator):
    """A linear classifier by stochastic gradients, for several losses.

    Attributes:
        loss: ``"log_loss"``, ``"hinge"`` or ``"smoothed_hinge"``; with three classes or more
            ``"log_loss"`` is softmax and the others are refused.
    """

    loss: str = "log_loss"

    def _loss(self, declared: Declaration) -> StackLoss:
        width = declared.domain.target_count
        loss = self._chosen(self.loss, LABEL_LOSSES)
        if width == 1:
            return loss
        if self.loss != "log_loss":
            raise ConfigurationError(
                "Only binary classification is supported. The type of the target is multiclass, "
                f"and {self._name} has loss={self.loss!r}; use loss='log_loss'"
            )
        return SoftmaxLoss(classes=width)


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateSGDRegressor(NumberEstimator, LossEstimator):
    """A linear regression by stochastic gradients, for several losses.

    Attributes:
        loss: ``"squared_error"``, ``"huber"``, ``"pseudo_huber"`` or ``"absolute_error"``, in
            units of the scaled target.
    """

    loss: Literal["squared_error", "huber", "pseudo_huber", "absolute_error"] = "squared_error"

    def _loss(self, declared: Declaration) -> StackLoss:
        return self._chosen(self.loss, REGRESSION_LOSSES)
