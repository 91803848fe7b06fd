"""Entry point. Imports nothing heavy: each command loads its parts when it is called."""

import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, cast

import typer

from dpstream import __version__
from dpstream.cli.failure import FAILURE, USAGE, fail

app = typer.Typer(
    name="dpstream",
    help="Differentially private models kept fresh on a stream of people's records.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich" if sys.stdout.isatty() else None,
)

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]
ConfigFile = Annotated[Path, typer.Argument(help="The configuration (TOML).")]
PictureFile = Annotated[
    Path | None, typer.Option(help="Also write one self-contained HTML page with pictures here.")
]
Folder = Annotated[Path, typer.Argument(help="The folder of a run.")]


def complete(what: str) -> list[str]:
    """Words that a shell may complete; loaded when one asks for them."""
    return list(import_module("dpstream.cli.completion").words(what))


def _command(module: str, name: str) -> Callable[..., None]:
    return cast("Callable[..., None]", getattr(import_module(f"dpstream.cli.{module}"), name))


@app.command(
    epilog="Example: dpstream init mine.toml --input mine.csv --target delay=-60:240 "
    "--column hour=0:24 --column origin=EWR,JFK,LGA --unit record --epsilon 1"
)
def init(
    out: Annotated[Path, typer.Argument(help="The configuration to write.")] = Path(
        "dpstream.toml"
    ),
    input_path: Annotated[
        str | None, typer.Option("--input", help="File or folder of records.")
    ] = None,
    target: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=BOUNDS", help="What is predicted: NAME=LOWER:UPPER or NAME=LABEL,LABEL."
        ),
    ] = None,
    column: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=BOUNDS",
            help="A feature, once for each: NAME=LOWER:UPPER, NAME=A,B or NAME=boolean.",
        ),
    ] = None,
    unit: Annotated[
        str | None, typer.Option(help="Whose contribution is hidden: record, or COLUMN:CAP.")
    ] = None,
    epsilon: Annotated[float | None, typer.Option(help="The budget of the whole stream.")] = None,
    every: Annotated[
        int, typer.Option(min=1, metavar="N", help="Publish after so many records.")
    ] = 500,
    records: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="The most that will come, if there is a limit."),
    ] = None,
    public_sample: Annotated[
        Path | None,
        typer.Option(help="Read bounds that are not given from this file, which is PUBLIC."),
    ] = None,
    force: Annotated[bool, typer.Option(help="Replace a configuration that is there.")] = False,
    as_json: Json = False,
) -> None:
    """Five questions, or flags: a configuration that runs."""
    from dpstream.cli.init import Answers

    answers = Answers(
        input_path=input_path,
        targets=target or (),
        columns=column or (),
        unit=unit,
        epsilon=epsilon,
        every=every,
        records=records,
        public_sample=public_sample,
    )
    _command("init", "init")(out, answers, force=force, as_json=as_json)


@app.command(epilog="Example: dpstream run flights.toml --input today.csv --out out")
def run(
    config: ConfigFile,
    input_path: Annotated[
        str | None,
        typer.Option("--input", help="File or folder of records, or - for standard input."),
    ] = None,
    out: Annotated[
        Path, typer.Option(help="Folder for the model, releases, ledger, report.")
    ] = Path("out"),
    resume: Annotated[bool, typer.Option(help="Continue the stream kept in the folder.")] = False,
    publish_next: Annotated[
        bool, typer.Option(help="Publish when the next tick closes, whatever the schedule says.")
    ] = False,
    insecure_seed: Annotated[
        int | None, typer.Option(help="TESTS ONLY: fixed noise; voids the guarantee and says so.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Stream in, fresh private model out."""
    _command("run", "run")(
        config,
        input_path=input_path,
        out=out,
        resume=resume,
        publish_next=publish_next,
        insecure_seed=insecure_seed,
        as_json=as_json,
    )


@app.command(epilog="Example: dpstream plan flights.toml --picture plan.html")
def plan(
    config: ConfigFile,
    drift: Annotated[
        float | None,
        typer.Option(
            min=0.0,
            help="A guess: how far the best parameters move per block (scaled units). Compares "
            "memories.",
        ),
    ] = None,
    change: Annotated[
        float | None, typer.Option(min=0.0, help="A guess: how far they jump at once.")
    ] = None,
    changed_at: Annotated[
        int, typer.Option(min=0, help="The first block, from 0, after that jump.")
    ] = 0,
    block: Annotated[
        int | None, typer.Option(min=1, help="Compare memories after this block.")
    ] = None,
    picture: PictureFile = None,
    as_json: Json = False,
) -> None:
    """Before any data: noise, predicted error, why."""
    from dpstream.cli.plan import DriftGuess

    guess = DriftGuess(drift=drift, change=change, changed_at=changed_at, block=block)
    _command("plan", "plan")(config, guess=guess, picture=picture, as_json=as_json)


@app.command(epilog="Example: dpstream mechanisms --kind learner")
def mechanisms(
    kind: Annotated[
        str | None,
        typer.Option(
            help="Only this kind: mechanism, strategy, ...",
            autocompletion=lambda: complete("kinds"),
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """The catalogue of algorithms."""
    _command("mechanisms", "mechanisms")(kind=kind, as_json=as_json)


@app.command(epilog="Example: dpstream ledger out")
def ledger(folder: Folder, as_json: Json = False) -> None:
    """What was spent, and on what."""
    _command("ledger", "ledger")(folder, as_json=as_json)


@app.command(epilog="Example: dpstream verify out --head 4e7d...")
def verify(
    folder: Folder,
    head: Annotated[
        str | None, typer.Option(help="A head of the log kept elsewhere: detects a roll-back.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Recompute what was spent; check the chain."""
    _command("ledger", "verify")(folder, head=head, as_json=as_json)


@app.command(epilog="Example: dpstream audit flights.toml --budget 60")
def audit(
    config: Annotated[Path | None, typer.Argument(help="Attack this configuration.")] = None,
    mechanism: Annotated[
        str | None,
        typer.Option(
            help="Attack one part of the catalogue.", autocompletion=lambda: complete("audited")
        ),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Attack all of the catalogue.")] = False,
    budget: Annotated[float | None, typer.Option(help="Seconds it may take, about.")] = None,
    picture: PictureFile = None,
    workers: Annotated[int, typer.Option(help="Processes that share --all.")] = 2,
    as_json: Json = False,
) -> None:
    """Attack it: measured epsilon against the claim."""
    _command("audit", "audit")(
        config,
        mechanism=mechanism,
        everything=everything,
        budget=budget,
        picture=picture,
        workers=workers,
        as_json=as_json,
    )


@app.command(epilog="Example: dpstream explain --epsilon 1 --delta 1e-6")
def explain(
    config: Annotated[
        Path | None, typer.Argument(help="Explain the guarantee of this configuration.")
    ] = None,
    epsilon: Annotated[float | None, typer.Option(help="Or of this epsilon ...")] = None,
    delta: Annotated[float | None, typer.Option(help="... and this delta.")] = None,
    neighbours: Annotated[
        str, typer.Option(help="With --epsilon: zero_out or replace.")
    ] = "zero_out",
    cap: Annotated[
        int | None, typer.Option(help="With --epsilon: the unit is a user with so many records.")
    ] = None,
    picture: PictureFile = None,
    as_json: Json = False,
) -> None:
    """What epsilon means: an attacker's best odds."""
    _command("explain", "explain")(
        config,
        epsilon=epsilon,
        delta=delta,
        neighbours=neighbours,
        cap=cap,
        picture=picture,
        as_json=as_json,
    )


@app.command(epilog="Example: dpstream reproduce geometry --out reproduced")
def reproduce(
    name: Annotated[
        str,
        typer.Argument(
            help="An experiment, or all of them.",
            autocompletion=lambda: complete("experiments"),
        ),
    ],
    data: Annotated[Path | None, typer.Option(help="Folder with the data sets it reads.")] = None,
    out: Annotated[Path, typer.Option(help="Folder for numbers and pictures.")] = Path(
        "reproduced"
    ),
    as_json: Json = False,
) -> None:
    """A paper's experiment: numbers and pictures."""
    _command("reproduce", "reproduce")(name, data=data, out=out, as_json=as_json)


@app.command(epilog="Example: dpstream bench moments")
def bench(
    name: Annotated[
        str | None,
        typer.Argument(
            help="One benchmark; all of them if left out.",
            autocompletion=lambda: complete("benchmarks"),
        ),
    ] = None,
    data: Annotated[Path | None, typer.Option(help="Folder with the data sets it reads.")] = None,
    history: Annotated[
        Path | None, typer.Option(help="Folder that keeps every run's figures.")
    ] = None,
    no_history: Annotated[
        bool, typer.Option("--no-history", help="Neither compare with earlier runs nor keep this.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Speed against the floor of this machine, and its past."""
    _command("bench", "bench")(
        name, data=data, history=history, keep=not no_history, as_json=as_json
    )


def _version(show: bool) -> None:
    if show:
        typer.echo(f"dpstream {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Differentially private models kept fresh on a stream of people's records."""


def main(arguments: list[str] | None = None) -> None:
    """Run the command line; never ends in a bare traceback for an expected failure."""
    command: Any = typer.main.get_command(app)
    given = sys.argv[1:] if arguments is None else arguments
    try:
        # By itself it shows what there is.
        code = command.main(args=given or ["--help"], prog_name="dpstream", standalone_mode=False)
    except Exception as error:  # the one place that turns errors into exit codes
        fail(error)
    except KeyboardInterrupt:
        sys.stderr.write(
            "dpstream: interrupted; what was committed is kept, continue with --resume\n"
        )
        sys.exit(FAILURE)
    sys.exit(code if isinstance(code, int) else 0)


__all__ = ["FAILURE", "USAGE", "app", "main"]
