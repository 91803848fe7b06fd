"""Mechanisms: the parts that add noise."""

from dpstream.catalogue.entry import Entry, Kind

_AT = "dpstream.mechanisms"

MECHANISMS = (
    Entry(
        name="measure_gaussian",
        kind=Kind.MECHANISM,
        target=f"{_AT}.gaussian:measure_gaussian",
        source="Dwork, Roth 2014, appendix A; Balle, Wang 2018",
        summary="a vector plus exactly rounded Gaussian noise",
        guarantee="Gaussian differential privacy, mu = shift / sigma",
    ),
    Entry(
        name="measure_discrete_gaussian",
        kind=Kind.MECHANISM,
        target=f"{_AT}.discrete_gaussian:measure_discrete_gaussian",
        source="Canonne, Kamath, Steinke 2020",
        summary='an integer vector plus discrete Gaussian noise (noise = "exact")',
        guarantee="zero-concentrated privacy, rho = shift^2 / (2 sigma^2)",
    ),
    Entry(
        name="measure_spherical_laplace",
        kind=Kind.MECHANISM,
        target=f"{_AT}.spherical_laplace:measure_spherical_laplace",
        source="003 section 4.1 with the density that its bound needs; Chaudhuri et al. 2011",
        summary="a vector plus noise of density exp(-|v| / c): pure privacy",
        guarantee="pure privacy, epsilon = shift / c",
    ),
    Entry(
        name="select_exponential",
        kind=Kind.MECHANISM,
        target=f"{_AT}.exponential:select_exponential",
        source="McSherry, Talwar 2007; 001 section 4",
        summary="the index of the largest score plus Gumbel noise",
        guarantee="bounded range, epsilon = 2 shift / scale",
    ),
    Entry(
        name="choose_held_out",
        kind=Kind.MECHANISM,
        target=f"{_AT}.held_out:choose_held_out",
        source="McSherry, Talwar 2007; Chaudhuri, Monteleoni, Sarwate 2011, section 6",
        summary="which of several released models held-out records gain most by",
        guarantee="bounded range, epsilon = 1 / scale, twice that under replace",
    ),
    Entry(
        name="poisson_sample",
        kind=Kind.MECHANISM,
        target=f"{_AT}.poisson_sample:poisson_sample",
        source="Kasiviswanathan et al. 2011; Mironov, Talwar, Zhang 2019",
        summary="a secret sample of the records, each with the same probability by itself",
        guarantee="of a Gaussian measurement of a sample, the exact mixture's",
    ),
    Entry(
        name="ContinualSum",
        kind=Kind.MECHANISM,
        target=f"{_AT}.continual.sum:ContinualSum",
        source="000 appendix D; 004 section 5",
        summary="a running, windowed or decayed sum by any strategy, one event for life",
        guarantee="its strategy's promise at the whole budget",
    ),
    Entry(
        name="MomentLayout",
        kind=Kind.MECHANISM,
        target=f"{_AT}.moments:MomentLayout",
        source="000 section 4; 004 section 4",
        summary="the stack of moments of (1, x, y) that is measured, and its sensitivity",
        guarantee="states a sensitivity; measured by ContinualSum",
    ),
)
