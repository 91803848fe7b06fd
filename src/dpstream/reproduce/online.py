"""Online learners of paper 004: figures 2a, 2b and 2c, growth with the horizon, real streams.

Figure 2a: PQFTL on Gaussian features of dimension 10 scaled into the unit ball, alpha = 1, T =
100,000: average regret against epsilon. Figure 2b: the same on the years of songs and on delays of
flights, where the data are given. Figure 2c: PIGD on the forest cover types, where they are given:
accuracy on a tenth of the records held out.

Regret is that of released models on the records that follow, against the best fixed model in
hindsight, which is computed without privacy: for experiments only. Printed constants are run as
printed, on the same streams, as a comparison that promises nothing.
"""

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dpstream.privacy.unit import Neighbours
from dpstream.report.figure import Line, line_figure
from dpstream.report.page import Block, Picture, Table, Text, render_page
from dpstream.reproduce.claim import claim, keep_picture
from dpstream.reproduce.comparison import EPSILONS, Comparison
from dpstream.reproduce.forest import forest_comparison
from dpstream.reproduce.horizon import HORIZONS, LONG_HORIZONS, horizon_figures
from dpstream.reproduce.quadratic_stream import (
    DELTA,
    QuadraticStream,
    our_quadratic_regret,
    printed_quadratic_regret,
    quadratic_records,
)
from dpstream.reproduce.real_records import (
    flight_records,
    forest_records,
    song_file,
    song_records,
)
from dpstream.reproduce.regret import NOT_PRIVATE, growth_exponent
from dpstream.reproduce.stream_accuracy import (
    HELD_STEPS,
    SHUFFLE_SEED,
    STEPPED,
    accuracy_figures,
)

FULL_DATA = (
    "put msd_year.npz (YearPrediction, 515,345 songs), covtype.npz (580,000 cover types), "
    "nycflights13.npz and elec2.npz into a folder and pass it by --data"
)
POINTS = 0.005
"""Half a point of accuracy: how close privacy should come to none."""


def quadratic_comparison(name: str, stream: QuadraticStream, *, draws: int) -> Comparison:
    """Average regret against epsilon."""
    exact = np.cumsum(stream.moments, axis=0)
    leaders = [stream.leader(held, end) for held, end in zip(exact, stream.ends, strict=True)]
    return Comparison(
        name,
        "average regret",
        {epsilon: our_quadratic_regret(stream, epsilon, draws=draws) for epsilon in EPSILONS},
        {epsilon: printed_quadratic_regret(stream, epsilon, draws=draws) for epsilon in EPSILONS},
        stream.average_regret(leaders),
    )


def online(
    out: Path | None = None,
    data: Path | None = None,
    *,
    draws: int = 4,
    records: int = 100_000,
    shuffles: int = 10,
    horizons: Sequence[int] = HORIZONS,
) -> dict[str, Any]:
    """Run all experiments; with ``out``, write ``online.html`` and its pictures there.

    Args:
        out: a folder for the page, made if it is missing; None for numbers alone.
        data: a folder with ``msd_year.npz``, ``covtype.npz``, ``nycflights13.npz`` or
            ``elec2.npz``; None for synthetic streams.
        draws: of the noise per point.
        records: of figure 2a's stream.
        shuffles: of the forest's records.
        horizons: at which regret is measured, each four times the last.

    Returns:
        JSON-ready: each figure's numbers, claims with verdicts, names of pictures.
    """
    drawn = quadratic_records(dimension=10, records=records, seed=1)
    stream = QuadraticStream.admitted(*drawn, tick=500)
    comparisons = [quadratic_comparison("2a: PQFTL, synthetic", stream, draws=draws)]
    accuracies: Mapping[str, Any] = {}
    songs = None if data is None else song_file(data)
    if songs is not None:
        timbres, years = song_records(songs)
        held = QuadraticStream.admitted(timbres, years, tick=max(20, len(years) // 500))
        name = f"2b: PQFTL on {len(years):,} songs"
        comparisons.append(quadratic_comparison(name, held, draws=draws))
    if data is not None and (data / "nycflights13.npz").exists():
        flights = QuadraticStream.admitted(*flight_records(data), tick=1000)
        comparisons.append(quadratic_comparison("2b: PQFTL on flights", flights, draws=draws))
    if data is not None and (data / "covtype.npz").exists():
        comparisons.append(forest_comparison(*forest_records(data), draws=shuffles))
    if data is not None:
        accuracies = accuracy_figures(data, draws=draws)
    growth = horizon_figures(horizons=horizons, draws=max(1, draws // 2))
    result: dict[str, Any] = {
        "name": "online",
        "delta": DELTA,
        "neighbours": Neighbours.REPLACE.value,
        "regret": NOT_PRIVATE,
        "figures": {comparison.name: comparison.to_json() for comparison in comparisons},
        "growth": growth,
        "accuracy on real streams": accuracies,
        "shuffle_seed": SHUFFLE_SEED,
        "claims": [
            *(item for figure in comparisons for item in _figure_claims(figure)),
            *_growth_claims(growth),
            *_accuracy_claims(accuracies),
        ],
        "full_data": FULL_DATA,
    }
    if out is not None:
        pictures = {figure.name: _picture(figure) for figure in comparisons}
        pictures["regret against the horizon"] = _growth_picture(growth)
        out.mkdir(parents=True, exist_ok=True)
        result["pictures"] = [
            keep_picture(out, f"online-{number}-{_slug(name)}", svg)
            for number, (name, svg) in enumerate(pictures.items(), start=1)
        ]
        page = out / "online.html"
        page.write_text(_page(comparisons, growth, accuracies, pictures), encoding="utf-8")
        result["page"] = str(page)
    return result


def _slug(name: str) -> str:
    return "-".join("".join(c if c.isalnum() else " " for c in name.lower()).split())


# --- claims --------------------------------------------------------------------------------------


def _figure_claims(figure: Comparison) -> list[dict[str, Any]]:
    better = (lambda a, b: a >= b) if figure.quantity == "accuracy" else (lambda a, b: a <= b)
    ours = [figure.ours[epsilon] for epsilon in EPSILONS]
    # Equal levels are those that the noise of the draws cannot tell apart.
    slack = 0.01 if figure.quantity == "accuracy" else 0.05 * ours[0]
    monotone = all(
        better(later, earlier) or abs(later - earlier) <= slack
        for earlier, later in itertools.pairwise(ours)
    )
    beaten = all(
        better(figure.ours[epsilon], figure.printed[epsilon])
        or abs(figure.ours[epsilon] - figure.printed[epsilon]) <= slack
        for epsilon in EPSILONS
    )
    return [
        claim(
            f"004 figure {figure.name}: {figure.quantity} improves with epsilon",
            expected="monotone from epsilon 0.01 to 10",
            measured=", ".join(f"{value:.4g}" for value in ours),
            held=monotone,
            theirs="monotone, read off the figure",
        ),
        claim(
            f"004 figure {figure.name}: ours against the printed constants",
            expected="no worse at any epsilon",
            measured=f"printed: {', '.join(f'{figure.printed[e]:.4g}' for e in EPSILONS)}",
            held=beaten,
        ),
    ]


GROWTH: Mapping[str, tuple[float, float, str]] = {
    "perturbed, known horizon": (0.4, 0.6, "about 1/2"),
    "perturbed, no horizon": (0.4, 0.7, "1/2 plus a logarithm: at most 0.7 here"),
    "sums of moments": (-0.5, 0.25, "a power of ln T: below 0.25 here"),
    "sums of gradients": (-0.5, 0.25, "a power of ln T: below 0.25 here"),
}
"""Least and largest exponent of growth that agrees with theory over these horizons, in words."""


def _growth_claims(growth: Mapping[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for name, (least, largest, words) in GROWTH.items():
        held = growth["regret"][name]
        slope = growth_exponent(held["records"], held["total"])
        inside = least <= slope <= largest
        found.append(
            claim(
                f"004: total regret against T, {name}",
                expected=words,
                measured=f"exponent {slope:.2f}",
                held=inside,
                theirs="O(sqrt T)" if name.startswith("perturbed") else "polylogarithmic",
            )
        )
    endless, doubling = (
        [growth["epsilon"][name][str(t)] for t in LONG_HORIZONS]
        for name in ("endless prices", "algorithm 7 as printed")
    )
    found.append(
        claim(
            "004 appendix F: epsilon without a horizon, T = 1e3, 1e5, 1e7",
            expected="endless prices stay below the budget of 1 for ever",
            measured=", ".join(f"{value:.3f}" for value in endless),
            held=max(endless) <= 1.0,
            theirs=f"algorithm 7 grows: {', '.join(f'{value:.2f}' for value in doubling)}",
        )
    )
    noise = [growth["noise at endless prices"][str(t)] for t in LONG_HORIZONS]
    # sqrt(T) ln T has 0.555 and 0.573; prices of the first hundred releases add to the second.
    slopes = [
        growth_exponent(LONG_HORIZONS[k : k + 2], noise[k : k + 2]) for k in range(len(noise) - 1)
    ]
    found.append(
        claim(
            "004 section 3: noise without a horizon, from T = 1e3 to 1e5 to 1e7",
            expected="1/2 and the logarithm's share: below 0.59",
            measured=f"exponents {', '.join(f'{slope:.3f}' for slope in slopes)}",
            held=max(slopes) < 0.59,
            theirs="O(sqrt T)",
        )
    )
    return found


def _accuracy_claims(accuracies: Mapping[str, Any]) -> list[dict[str, Any]]:
    """At the end: on records held out, or in time order over the last tenth and the whole."""
    found: list[dict[str, Any]] = []
    for name, held in accuracies.items():
        private, plain = held["private"], held["without privacy"]
        shuffled = private["held_out"] is not None
        judged = ("held_out",) if shuffled else ("last_tenth", "whole")
        steps = [
            f"{words} {', '.join(f'{held[key][kind]:.4f}' for kind in judged)}"
            for words, key in (("at every record", STEPPED), ("as often as ours", HELD_STEPS))
        ]
        last = held["repeat the last label"]
        repeating = "" if shuffled else f"; repeating the last label {last['last_tenth']:.4f}"
        words = "held out" if shuffled else "last tenth, whole stream"
        found.append(
            claim(
                f"{name}: accuracy at (1, 1e-6) against the same learner without privacy",
                expected=f"within half a point ({words})",
                measured="; ".join(
                    f"{private[kind]:.4f} against {plain[kind]:.4f}" for kind in judged
                ),
                held=all(private[kind] >= plain[kind] - POINTS for kind in judged),
                theirs=f"gradient descent {', '.join(steps)}{repeating}",
            )
        )
    return found


# --- pictures ------------------------------------------------------------------------------------


def _picture(figure: Comparison) -> str:
    lines = {
        name: Line(x=np.array(list(held)), y=np.array(list(held.values())), marker=True)
        for name, held in figure.series.items()
    }
    return line_figure(
        lines,
        x_label="epsilon",
        y_label=figure.quantity,
        x_log=True,
        y_log=figure.quantity == "average regret",
        references={"without privacy": figure.without_privacy},
    )


def _growth_picture(growth: Mapping[str, Any]) -> str:
    lines = {
        name: Line(x=np.array(held["records"]), y=np.array(held["total"]), marker=True)
        for name, held in growth["regret"].items()
    }
    return line_figure(lines, x_label="T", y_label="total regret", x_log=True, y_log=True)


def _page(
    comparisons: Sequence[Comparison],
    growth: Mapping[str, Any],
    accuracies: Mapping[str, Any],
    pictures: Mapping[str, str],
) -> str:
    sections: list[tuple[str, Sequence[Block]]] = []
    for figure in comparisons:
        rows = [(e, *(held[e] for held in figure.series.values())) for e in EPSILONS]
        caption = f"{figure.quantity} against epsilon; without privacy {figure.without_privacy:.4g}"
        table = Table(("epsilon", *figure.series), rows)
        sections.append((figure.name, [Picture(pictures[figure.name], caption), table]))
    caption = "Total regret against the horizon; straight lines are powers"
    epsilons = [
        (name, *(held[str(t)] for t in LONG_HORIZONS)) for name, held in growth["epsilon"].items()
    ]
    blocks = [
        Picture(pictures["regret against the horizon"], caption),
        Table(("epsilon after", *(f"{t:,}" for t in LONG_HORIZONS)), epsilons),
    ]
    sections.append(("Growth with the horizon", blocks))
    if accuracies:
        rows = [
            (stream, name, *("" if value is None else value for value in held.values()))
            for stream, learners in accuracies.items()
            for name, held in learners.items()
        ]
        header = ("stream", "learner", "whole stream", "last tenth", "held out")
        sections.append(("Accuracy on real streams", [Table(header, rows)]))
    sections.append(("Setup", [Text(line) for line in str(__doc__).split("\n\n")]))
    lead = f"delta = {DELTA:g}, {Neighbours.REPLACE.value}; {NOT_PRIVATE}"
    return render_page("Private online learning", lead, sections)
