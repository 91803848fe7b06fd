"""Constraint sets and losses: public mathematics that never sees data by itself."""

from dpstream.catalogue.entry import Entry, Kind

_SETS = "dpstream.geometry"
_LOSSES = "dpstream.losses"


def _set(name: str, module: str, source: str, summary: str) -> Entry:
    return Entry(
        name=name,
        kind=Kind.SET,
        target=f"{_SETS}.{module}:{name}",
        source=source,
        summary=summary,
    )


def _loss(name: str, module: str, source: str, summary: str) -> Entry:
    return Entry(
        name=name,
        kind=Kind.LOSS,
        target=f"{_LOSSES}.{module}:{name}",
        source=source,
        summary=summary,
    )


SETS = (
    _set("L2Ball", "l2_ball", "000, 001 section 2", "Euclidean ball"),
    _set("L1Ball", "l1_ball", "000, 001 section 3", "cross-polytope: sparse models"),
    _set("Box", "box", "002", "an interval for each coordinate"),
    _set("Simplex", "simplex", "001 section 2", "probability vectors"),
    _set("LpBall", "lp_ball", "001 section 3", "Lp ball, 1 < p < 2"),
    _set("GroupBall", "group_ball", "001 section 3", "grouped L1 ball: sparse in blocks"),
    _set(
        "InterpolationBall",
        "interpolation_ball",
        "001 section 3",
        "between the L1 and the L2 ball (elastic net as a set)",
    ),
    _set("NuclearBall", "nuclear_ball", "001 section 3", "matrices of small nuclear norm"),
    _set("VertexHull", "hull", "001 section 4", "convex hull of given points"),
    _set("SymmetricHull", "hull", "001 section 4", "convex hull of given points and their mirrors"),
    _set("Polytope", "polytope", "001 section 4", "linear inequalities"),
    _set("FlowPolytope", "flow_polytope", "002", "unit flows on an acyclic graph"),
)

LOSSES = (
    _loss("SquaredLoss", "squared", "000, 004", "half the squared residual"),
    _loss("LogisticLoss", "logistic", "003, 004", "logistic regression, labels -1 and 1"),
    _loss("SoftmaxLoss", "softmax", "003", "cross-entropy over classes"),
    _loss("HingeLoss", "hinge", "001", "support vector machine"),
    _loss("SmoothedHingeLoss", "hinge", "001", "hinge with a quadratic corner"),
    _loss("HuberLoss", "huber", "003", "robust regression"),
    _loss(
        "PseudoHuberLoss", "huber", "001 section 2.3 (density check)", "smooth robust regression"
    ),
    _loss("QuantileLoss", "quantile", "Koenker, Bassett 1978", "median and other quantiles"),
    _loss("PoissonLoss", "poisson", "McCullagh, Nelder 1989", "counts with a bounded rate"),
)
