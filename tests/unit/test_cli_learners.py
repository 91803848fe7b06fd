"""Every learner of the catalogue can be configured, and every mistake names its key."""

import inspect
import tomllib
from dataclasses import replace
from typing import Any

import pytest

from dpstream.catalogue.catalogue import entries
from dpstream.catalogue.entry import Kind
from dpstream.cli.assemble import assemble_stream
from dpstream.cli.config import parse_config
from dpstream.cli.learner import LEARNERS
from dpstream.cli.options import NAMED, part_kinds
from dpstream.cli.part import ALGORITHMS, LOSSES, SETS, SOLVERS, Shelf
from dpstream.engine.clock_schedule import EveryInterval
from dpstream.engine.stream import Stream
from dpstream.errors import ConfigurationError, DpstreamError, NotPrivate
from dpstream.learners.window.block_learner import BlockLearner

STREAM = """
[columns.a]
lower = 0
upper = 1
[columns.b]
lower = -1
upper = 1
[targets.t]
{target}
[privacy]
epsilon = 1.0
delta = 1e-6
neighbours = "zero_out"
[record]
intercept = {intercept}
[schedule]
{schedule}
[learner]
{learner}
"""

BLOCKS = "loss = 'logistic'\nridge = 0.1\nradius = 2.0\n"

GOOD = {
    "auto": "constraint = 'l2'",
    "RunningSum": "window = 4\ncount = true",
    "PrivIncReg1": "constraint = { name = 'l1', radius = 2.0 }",
    "PrivIncReg2": "constraint = 'l1'\nprojection_seed = 1",
    "PrivIncERM": "loss = 'logistic'\nconstraint = 'l2'\nsolver = 'output_perturbation'\n"
    "ridge = 0.01\nrefit_every = 4",
    "PQFTL": "alpha = 0.1",
    "FollowTheLeader": "loss = { name = 'smoothed_hinge', width = 0.5 }\nbend = 0.5\ndecay = 0.9",
    "WDP-COCOP": "loss = 'logistic'\nconstraint = 'l2'\nwindow = 4\nmodulus = 0.1",
    "WDP-COCOL": "loss = 'logistic'\nconstraint = 'l1'\nwindow = 4\nmodulus = 0.1",
    "POCP": "loss = 'logistic'\nmodulus = 0.1\nalgorithm = { name = 'pgiga', ball_radius = 2.0 }",
    "MultiResolutionRelease": BLOCKS + "levels = 3",
    "ContinualRelease": BLOCKS + "base = 2",
    "BasicRelease": BLOCKS + "base = 2",
    "SlidingWindowRelease": BLOCKS + "window_records = 200",
    "DecayedRelease": BLOCKS + "decay = 0.8",
    "WindowedRegression": "window_ticks = 4",
}
NUMBERS = ("auto", "RunningSum", "PrivIncReg1", "PrivIncReg2", "PQFTL", "WindowedRegression")


def stream(
    name: str,
    options: str,
    *,
    schedule: str = "every = 50\nhorizon = 8",
    intercept: bool | None = None,
    target: str | None = None,
) -> Stream[Any]:
    numeric = "lower = 0\nupper = 2"
    text = STREAM.format(
        target=target or (numeric if name in NUMBERS else "labels = ['no', 'yes']"),
        intercept=str(name != "WDP-COCOL" if intercept is None else intercept).lower(),
        schedule=schedule,
        learner=f"name = '{name}'\n{options}",
    )
    return assemble_stream(parse_config(tomllib.loads(text), name="test"))


def refusal(name: str, options: str, **where: Any) -> str:
    with pytest.raises(DpstreamError) as refused:
        stream(name, options, **where)
    assert isinstance(refused.value, ConfigurationError | NotPrivate)  # exit code 2
    return str(refused.value)


def test_every_learner_of_the_catalogue_has_a_row() -> None:
    made = {getattr(row.make, "__name__", "").strip("_") for row in LEARNERS.values()}
    listed = {entry.attribute for entry in entries(Kind.LEARNER)}
    assert listed <= made | {"PrivIncERM"}
    assert "priv_inc_erm" in made
    assert set(GOOD) == set(LEARNERS)


@pytest.mark.parametrize("name", LEARNERS)
def test_every_learner_is_assembled_from_text(name: str) -> None:
    found = stream(name, GOOD[name])
    assert found.budget.epsilon == 1.0
    assert found.identity()["learner"]["name"] == found.learner.name


def test_a_target_names_the_log_of_its_source() -> None:
    text = GOOD["SlidingWindowRelease"] + "\nsource = 'large/releases.jsonl'"
    found = stream("SlidingWindowRelease", text).learner.describe()
    assert found["source"] == {"source": "large/releases.jsonl"}
    assert "learner.source" in refusal("BasicRelease", GOOD["BasicRelease"] + "\nsource = 3")


@pytest.mark.parametrize(
    ("shelf", "kind"),
    [(SETS, Kind.SET), (LOSSES, Kind.LOSS), (SOLVERS, Kind.SOLVER)],
    ids=["sets", "losses", "solvers"],
)
def test_every_part_of_the_catalogue_has_a_name(shelf: Shelf, kind: Kind) -> None:
    assert len(shelf.parts) == len(entries(kind))


@pytest.mark.parametrize(
    "declared",
    [
        "'l2'",
        "{ name = 'l1', radius = 3.0 }",
        "{ name = 'box', lower = [-1, -2], upper = [1, 2] }",
        "{ name = 'box', radius = 2.0 }",
        "{ name = 'simplex', radius = 2.0 }",
        "{ name = 'lp', order = 1.5, radius = 2.0 }",
        "{ name = 'group', group_size = 2, radius = 1.0 }",
        "{ name = 'interpolation', mix = 0.5, radius = 1.0 }",
        "{ name = 'nuclear', rows = 1, columns = 2 }",
        "{ name = 'hull', vertices = [[0, 0], [1, 0], [0, 1]] }",
        "{ name = 'symmetric_hull', vertices = [[1, 0], [0, 1]] }",
        "{ name = 'polytope', matrix = [[1, 0], [0, 1], [-1, -1]], limits = [1, 1, 1] }",
        "{ name = 'flow', edges = [[0, 1], [0, 1]], source = 0, sink = 1 }",
        "'L1Ball'",
    ],
)
def test_every_set_can_be_declared(declared: str) -> None:
    assert stream("PrivIncReg1", f"constraint = {declared}").learner.name == "priv_inc_reg1"


@pytest.mark.parametrize("name", SOLVERS.parts)
def test_every_solver_is_built_by_its_name(name: str) -> None:
    assert SOLVERS.build(name, key="learner.solver").plan


def test_softmax_and_its_set_follow_the_labels() -> None:
    found = stream(
        "FollowTheLeader",
        "loss = 'softmax'\nconstraint = 'l2'",
        target="labels = ['a', 'b', 'c']",
    )
    assert found.learner.convex_set.dimension == 6


def test_a_perturbed_learner_pays_for_the_ticks_that_publish() -> None:
    learner = stream(
        "POCP", GOOD["POCP"], schedule="every = 50\nhorizon = 8\npublish_every = 4"
    ).learner
    assert learner.releases == 2
    # On demand nobody knows how many there will be: prices that never end.
    learner = stream(
        "POCP", GOOD["POCP"], schedule="every = 50\nhorizon = 8\npublish_every = 0"
    ).learner
    assert learner.releases is None
    assert learner.price.schedule == "endless"


def test_a_clock_leaves_the_size_of_a_tick_to_the_learner_or_to_tick_records() -> None:
    clock = "interval = 60\nhorizon = 8"
    assert stream("PrivIncReg1", "", schedule=clock).learner.tick_records is None
    bounded = stream("PrivIncReg1", "", schedule=clock + "\ntick_records = 100")
    assert bounded.learner.tick_records == 100


SUM_LEARNERS = [
    name for name, row in LEARNERS.items() if "exact" in str(inspect.signature(row.make))
]


@pytest.mark.parametrize("name", SUM_LEARNERS)
def test_noise_is_declared_by_its_name(name: str) -> None:
    fast = stream(name, GOOD[name]).identity()
    exact = stream(name, GOOD[name] + "\nnoise = 'exact'")
    assert stream(name, GOOD[name] + "\nnoise = 'gaussian'").identity() == fast
    kinds = {event.to_json()["kind"] for event in exact.learner.opening_events()}
    assert kinds == {"zero_concentrated"}
    assert exact.identity() != fast


def test_pure_noise_is_declared_by_its_name() -> None:
    event = stream("RunningSum", "noise = 'spherical_laplace'").learner.opening_events()[0]
    assert event.to_json()["kind"] == "pure"


MISTAKES = [
    ("PrivIncReg1", "noise = 'exakt'", "'gaussian', 'exact' or 'spherical_laplace'"),
    ("PrivIncReg1", "noise = 'spherical_laplace'", "one scale for all coordinates"),
    ("PrivIncReg", "", "did you mean 'PrivIncReg1' or 'PrivIncReg2'?"),
    ("PrivIncReg1", "radios = 1", "learner.radios: unknown key; did you mean 'radius'?"),
    ("PrivIncReg1", "radius = 'wide'", "learner.radius: input should be a valid number"),
    (
        "PrivIncReg1",
        "constraint = 'l3'",
        "no such constraint set; did you mean 'l1' or 'l2' or 'lp'?",
    ),
    ("PrivIncReg1", "constraint = 3", "learner.constraint: give a name in quotes"),
    (
        "PrivIncReg1",
        "constraint = { name = 'l1', size = 2 }",
        "learner.constraint.size: unknown key",
    ),
    ("PrivIncReg1", "constraint = { name = 'lp' }", "learner.constraint.order: is missing"),
    ("PrivIncReg1", "constraint = { name = 'l1', radius = -1.0 }", "must be positive"),
    ("PrivIncReg1", "window = 4", "learner.window: unknown key"),
    ("PrivIncReg1", "calibration = 'paper'", "calibration='paper'"),
    ("PrivIncReg2", "projection_seed = 1", "learner.constraint: is missing"),
    ("PrivIncERM", "loss = 'logistic'", "learner.constraint: is missing"),
    ("PrivIncERM", GOOD["PrivIncERM"].replace("output", "outptu"), "output_perturbation"),
    ("FollowTheLeader", "", "learner.loss: is missing"),
    ("FollowTheLeader", "loss = 'logisitc'", "did you mean 'logistic'?"),
    ("FollowTheLeader", "loss = 'softmax'", "three or more labels"),
    ("FollowTheLeader", "loss = 'logistic'\nstrategy = 'treee'", "known running sums"),
    ("RunningSum", "window = 4\ndecay = 0.5", "give window or decay, not both"),
    ("RunningSum", "strategy = 'window_tree'", "needs a window"),
    ("POCP", "loss = 'logistic'\nmodulus = 0.1\nalgorithm = 'sgd'", "no such online algorithm"),
    ("POCP", "loss = 'logistic'\nmodulus = 0.0\nalgorithm = 'pigd'", "must be positive"),
    ("ContinualRelease", BLOCKS, "learner.base: is missing"),
    ("BasicRelease", BLOCKS + "base = 2\nsampling = true", "leave sampling out"),
    ("SlidingWindowRelease", BLOCKS + "window_records = 99", "whole number of blocks"),
    (
        "BasicRelease",
        BLOCKS + "base = 2\nbase_solver = 'noisy_sgd'",
        "measures within its steps",
    ),
    ("BasicRelease", BLOCKS + "base = 0", "base is 0"),
    ("BasicRelease", BLOCKS + "base = 0.5", "learner.base: input should be a valid integer"),
    ("BasicRelease", BLOCKS.replace("ridge = 0.1", "ridge = 0.0") + "base = 2", "ridge is 0"),
    ("ContinualRelease", BLOCKS + "base = 9", "the first model needs 9"),
    ("WindowedRegression", "", "give one of them"),
    ("WindowedRegression", "window_ticks = 4\ndecay = 0.5", "give one of them"),
]


@pytest.mark.parametrize(("name", "options", "said"), MISTAKES)
def test_a_mistake_is_one_clear_message(name: str, options: str, said: str) -> None:
    message = refusal(name, options)
    assert said in message
    assert "\n" not in message


def test_a_solver_takes_the_fits_of_a_learner_over_blocks() -> None:
    options = GOOD["BasicRelease"] + "\nbase_solver = { name = 'permuted_sgd', batch_size = 8 }"
    described = stream("BasicRelease", options).learner.describe()["base_solver"]
    assert described["name"] == "permuted_sgd"
    assert described["options"]["batch_size"] == 8
    assert stream("BasicRelease", GOOD["BasicRelease"]).learner.describe()["base_solver"] is None


def test_passes_in_order_are_refused_where_a_record_may_be_absent() -> None:
    """By the time of day a record that did not come moves the later ones of its tick."""
    ticks = "interval = 60\ntick_records = 50"
    for base in ("permuted_sgd", "pol"):
        options = GOOD["BasicRelease"] + f"\nbase_solver = '{base}'"
        assert "would all stand elsewhere" in refusal("BasicRelease", options, schedule=ticks)
        counted = stream("BasicRelease", options)
        assert isinstance(counted.learner, BlockLearner)
        assert counted.learner.ordered
        dated = replace(counted, schedule=EveryInterval(seconds=60.0, time_column="when"))
        assert dated.schedule.time_column == "when"
    for base in ("", "\nbase_solver = 'output_perturbation'"):
        found = stream("BasicRelease", GOOD["BasicRelease"] + base, schedule=ticks)
        assert isinstance(found.learner, BlockLearner)
        assert not found.learner.ordered


BLOCK_LEARNERS = [name for name, options in GOOD.items() if options.startswith(BLOCKS)]


def test_averages_over_a_public_number_need_ticks_by_count() -> None:
    for name in ("PrivIncERM", "POCP"):
        assert "every = N" in refusal(name, GOOD[name], schedule="interval = 60")


@pytest.mark.parametrize("name", BLOCK_LEARNERS)
def test_blocks_close_by_a_clock_once_the_most_that_one_holds_is_declared(name: str) -> None:
    assert "tick_records = N" in refusal(name, GOOD[name], schedule="interval = 60")
    found = stream(name, GOOD[name], schedule="interval = 60\ntick_records = 50")
    assert found.learner.describe()["block_records"] == 50
    assert found.learner.horizon is None


def test_parts_are_known_wherever_a_learner_takes_them() -> None:
    kinds = {kind for row in LEARNERS.values() for kind in part_kinds(row.make).values()}
    assert kinds == set(NAMED.values())
    assert set(ALGORITHMS.parts) == {"pigd", "pgiga", "leader"}
