"""Models of recent data, after paper 003's figures 4 and 5, with noise for the true worst record.

On digits and titles: accuracy on a test set after every block, against the budget, the penalty, the
block and the window, in four runs with new orders and noise; median and quartiles. The paper's own
noise is run beside, and its sampling variants, marked as not private, with what one of their fits
costs at least. Test sets are looked at for these figures alone; no setting was chosen on them.

Under drift: sliding, decayed and cumulative models on two made-up streams, on the electricity
market and on forest covers in file order, beside what the plan said before any data. Transfer: few
moved digits, with and without a source of many. Squared loss: a window's moments against fits of
its blocks. Noise: how long it is beside the model, and what that does. Sampling: what the paper's
variants really cost.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dpstream.report.page import Block, Picture, Table, Text, render_page
from dpstream.reproduce.claim import keep_picture
from dpstream.reproduce.digit import load_digits, projected
from dpstream.reproduce.drift import electricity, forest, run_drift, turning
from dpstream.reproduce.sampled_release import sampled_release_cost
from dpstream.reproduce.title import load_titles
from dpstream.reproduce.transfer import run_transfer
from dpstream.reproduce.window_as_printed import PRINTED_PANELS
from dpstream.reproduce.window_claim import (
    drift_claims,
    moment_claims,
    obstacle_claims,
    panel_claims,
    sampled_claim,
    transfer_claim,
)
from dpstream.reproduce.window_figure import BASE_BLOCKS, BLOCK, PANELS
from dpstream.reproduce.window_moments import moment_comparisons
from dpstream.reproduce.window_obstacle import run_obstacles
from dpstream.reproduce.window_panel import DELTA, run_panel

RECORDS = 20_000
OBSTACLE_BLOCKS = 16
FULL_DATA = (
    "dpstream reproduce windows --data DIR with mnist.npz (X, y, X_test, y_test), arxiv_titles.npz "
    "(text, offsets, group), elec2.npz (X, y) and covtype.npz (num, wilderness, soil, cover)"
)


def windows(
    data: Path | None = None, out: Path | None = None, *, repeats: int = 4
) -> dict[str, Any]:
    """Run all experiments; with ``out``, write pictures and ``windows.html`` there.

    Args:
        data: the folder with the files; None for the made-up streams alone.
        out: a folder, made if it is missing; None for numbers alone.
        repeats: runs per curve.

    Returns:
        JSON-ready: per curve its medians and quartiles, claims, and names of pictures.

    Raises:
        SourceError: if a folder is given and a file is missing.
    """
    streams = [turning(slow=False), turning(slow=True)]
    panels: list[dict[str, Any]] = []
    transfer: dict[str, Any] | None = None
    obstacles: dict[str, Any] | None = None
    if data is not None:
        streams += [electricity(data), forest(data)]
        edges, pixels = load_digits(data, records=RECORDS)
        held = {
            "edges": edges,
            "pixels": pixels,
            "projected": pixels.mapped(projected),
            "titles": load_titles(data),
        }
        panels = [
            run_panel(panel, held, records=RECORDS, repeats=repeats)
            for panel in (*PANELS, *PRINTED_PANELS)
        ]
        transfer = run_transfer(edges, pixels, repeats=repeats)
        obstacles = run_obstacles(
            {name: held[name] for name in ("pixels", "projected", "edges")},
            block=BLOCK,
            base=BASE_BLOCKS,
            blocks=OBSTACLE_BLOCKS,
            penalty=1.0,
        )
    drifts = [run_drift(stream, repeats=repeats) for stream in streams]
    moments = moment_comparisons(repeats=repeats)
    sampled = sampled_release_cost()
    pictures = {f"windows-{item['name']}": item.pop("svg") for item in panels}
    pictures |= {f"windows-{item['name'].replace(' ', '-')}": item.pop("svg") for item in drifts}
    claims = [*drift_claims(drifts), *moment_claims(moments), sampled_claim(sampled)]
    result: dict[str, Any] = {
        "name": "windows",
        "delta": DELTA,
        "panels": panels,
        "drift": drifts,
        "moments": moments,
        "sampled": sampled,
        "full_data": FULL_DATA,
    }
    if transfer is not None and obstacles is not None:
        pictures["windows-transfer"] = transfer.pop("svg")
        pictures["windows-noise"] = obstacles.pop("svg")
        result |= {"transfer": transfer, "obstacles": obstacles}
        claims = [
            *panel_claims(panels),
            *obstacle_claims(obstacles),
            transfer_claim(transfer),
            *claims,
        ]
    result["claims"] = claims
    if out is not None:
        result["pictures"] = [keep_picture(out, name, svg) for name, svg in pictures.items()]
        page = out / "windows.html"
        page.write_text(_page(result, pictures), encoding="utf-8")
        result["page"] = page.name
    return result


def _page(result: Mapping[str, Any], pictures: Mapping[str, str]) -> str:
    titles: dict[str, str] = {
        f"windows-{item['name']}": f"{item['name']}: {item['title']}" for item in result["panels"]
    }
    sections: list[tuple[str, Sequence[Block]]] = [
        (titles.get(name, name.removeprefix("windows-")), [Picture(svg, "median and quartiles")])
        for name, svg in pictures.items()
    ]
    rows = [(f"{i['level']:g}", i["claimed"], i["true"]) for i in result["sampled"]]
    sections.append(("Squared loss: a window's moments and fits of its blocks", [_moments(result)]))
    if "obstacles" in result:
        sections.append(("The noise beside the model, lambda = 1", [_obstacles(result)]))
    sections.append(("Sampling, by level", [Table(("level", "claimed", "true"), rows)]))
    for item in result["drift"]:
        planned = [(p["name"], p["bias"], p["noise"], p["error"]) for p in item["plan"]]
        after = [(name, value) for name, value in item["after_change"].items()]
        sections.append(
            (
                f"Plan and outcome: {item['name']}",
                [
                    Table(("memory", "bias", "noise", "error"), planned),
                    Table(("memory", "measured error after the change"), after),
                ],
            )
        )
    sections.append(("Setup", [Text(line) for line in str(__doc__).split("\n\n")]))
    lead = f"epsilon = 1 unless said otherwise, delta = {DELTA:g}, zero_out"
    return render_page("Continual and sliding-window release", lead, sections)


def _moments(result: Mapping[str, Any]) -> Table:
    return Table(
        ("features", "epsilon", "error of moments", "error of fits", "their best ridge"),
        [
            (i["dimension"], i["epsilon"], i["moments"], i["refitted"], i["best_ridge"])
            for i in result["moments"]
        ],
    )


def _obstacles(result: Mapping[str, Any]) -> Table:
    names = ("features", "noise_kind", "epsilon", "schedule", "ratio", "simulated_accuracy")
    return Table(
        ("features", "noise", "epsilon", "schedule", "noise over model", "simulated accuracy"),
        [tuple(row[name] for name in names) for row in result["obstacles"]["rows"]],
    )
