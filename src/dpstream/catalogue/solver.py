"""Private batch solvers."""

from dpstream.catalogue.entry import Entry, Kind

_AT = "dpstream.solvers"


def _solver(module: str, name: str, source: str, summary: str, guarantee: str) -> Entry:
    return Entry(
        name=name,
        kind=Kind.SOLVER,
        target=f"{_AT}.{module}:{name}",
        source=source,
        summary=summary,
        guarantee=guarantee,
    )


_GAUSSIAN = "every unit of the batch; Gaussian, mu squared adds over steps"

SOLVERS = (
    _solver(
        "mirror_descent",
        "MirrorDescent",
        "001 section 2",
        "noisy mirror descent in the potential that suits the set",
        _GAUSSIAN,
    ),
    _solver(
        "noisy_sgd",
        "NoisySgd",
        "000 section 3, cases 1 and 2 (Bassily, Smith, Thakurta)",
        "noisy gradient descent, on secret Poisson samples where neighbours allow it",
        "every unit of the batch; the whole budget of one call",
    ),
    _solver(
        "frank_wolfe",
        "FrankWolfe",
        "001 section 4.1",
        "Frank-Wolfe on polytopes by private selection of vertices",
        "every unit of the batch; bounded range, composed over steps",
    ),
    _solver(
        "lasso",
        "Lasso",
        "001 section 4.2; screening and moments are dpstream's",
        "sparse least squares: select coordinates, then measure their moments",
        "every unit of the batch; selections and one Gaussian measurement",
    ),
    _solver(
        "frank_wolfe_gaussian",
        "GaussianFrankWolfe",
        "001 section 4.3",
        "Frank-Wolfe on any set by noisy gradients",
        _GAUSSIAN,
    ),
    _solver(
        "moment_regression",
        "MomentRegression",
        "000 section 4, for one batch",
        "least squares on any set from one measurement of the batch's moments",
        _GAUSSIAN,
    ),
    _solver(
        "objective_perturbation",
        "ObjectivePerturbation",
        "001 section 4; Redberg, Koskela, Wang 2023",
        "a random linear term in the objective; generalised linear losses only",
        "every unit of the batch; the whole budget of one call",
    ),
    _solver(
        "output_perturbation",
        "OutputPerturbation",
        "003 section 4.1 (PSGD); Chaudhuri, Monteleoni, Sarwate 2011",
        "the certified minimiser plus noise, perhaps around a released centre",
        "every unit of the batch; Gaussian, or pure with spherical Laplace noise",
    ),
    _solver(
        "permuted_sgd",
        "PermutedSGD",
        "003 section 4.1; Wu et al. 2017",
        "passes in a fixed public order plus noise at the end",
        "every unit of the batch; Gaussian, or pure with spherical Laplace noise",
    ),
    _solver(
        "pol",
        "OnlineToOffline",
        "004 section 5, algorithm 6 (POL)",
        "an online pass, published as an average, a suffix average or its last iterate",
        "every unit of the batch; Gaussian, or pure with spherical Laplace noise",
    ),
    _solver(
        "non_strongly_convex",
        "FadingRegulariser",
        "004 section 6.1",
        "losses without strong convexity, by a regulariser that fades",
        "every unit of the batch; Gaussian, or pure with spherical Laplace noise",
    ),
)
