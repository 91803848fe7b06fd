"""``dpstream run``: stream in, fresh private model out."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dpstream.cli.assemble import assemble_source, assemble_stream, source_location
from dpstream.cli.config import Config, load_config
from dpstream.cli.folder import RunFolder, ledger_json, model_json, write_public
from dpstream.cli.output import print_json, print_text
from dpstream.cli.plan import forecast_until
from dpstream.cli.problem import assemble_batch_stream
from dpstream.cli.progress import progress_line
from dpstream.cli.summary import describe_model
from dpstream.connectors.extent import estimated_records, has_more_records
from dpstream.connectors.location import STANDARD_INPUT
from dpstream.connectors.peeked import PeekedSource
from dpstream.domain.batch import IDENTIFIER_BYTES
from dpstream.engine.ports import Source
from dpstream.engine.publication import from_line
from dpstream.engine.schedule import EveryRecords, Schedule, Thinning
from dpstream.engine.session import Session
from dpstream.engine.stream import Stream
from dpstream.errors import ColumnAbsent, ConfigurationError
from dpstream.report.run import run_report, thin_out
from dpstream.saved.model_file import save_model
from dpstream.saved.saved_model import SavedModel
from dpstream.saved.score_model import PREDICTING
from dpstream.stores.release_log import ReleaseLog
from dpstream.stores.sqlite import SqliteStore


def run(
    config_path: Path,
    *,
    input_path: str | None,
    out: Path,
    resume: bool,
    publish_next: bool,
    insecure_seed: int | None,
    as_json: bool,
) -> None:
    """Run the command; see ``dpstream run --help``."""
    config = load_config(config_path)
    if config.batch is None:
        stream = assemble_stream(config, insecure_seed=insecure_seed)
    else:
        stream = assemble_batch_stream(config, config.batch, insecure_seed=insecure_seed)
    source = assemble_source(config, folder=config_path.parent, input_path=input_path)
    folder = RunFolder(out)
    if resume:
        folder.require_store()
    else:
        folder.require_none()
    location = source_location(config, folder=config_path.parent, input_path=input_path)
    if not resume:
        _refuse_beyond_horizon(stream, location, config)
        if location != STANDARD_INPUT or not stream.schedule.wall_clock:
            # By the time of day a stream begins when it is asked to, not with its first record.
            source = PeekedSource(source)
            _refuse_other_records(stream, source)
    folder.create()
    total = estimated_records(location, config.source.format)
    summary = _stream(stream, source, folder, config, total, publish_next=publish_next)
    if as_json:
        print_json(summary)
        return
    _print_summary(summary, folder)


def _refuse_beyond_horizon(stream: Stream[Any], location: str, config: Config) -> None:
    """A stream that is longer than its horizon is refused before any of its budget is spent."""
    schedule, horizon = stream.schedule, stream.learner.horizon
    if horizon is None or not isinstance(schedule, EveryRecords | Thinning):
        return
    last = schedule.end(horizon)
    if not has_more_records(location, config.source.format, last):
        return
    if config.batch is not None:
        raise ConfigurationError(
            f"{location} has more than the {last:,} records that [batch] declares; declare as many "
            "as there are in batch.records, or give a file of the records to be solved for"
        )
    raise ConfigurationError(
        f"{location} has more than the {last:,} records that the horizon of {horizon:,} ticks "
        "holds; declare a longer horizon in [schedule], or none"
    )


def _refuse_other_records(stream: Stream[Any], source: PeekedSource) -> None:
    """Records without the declared columns are refused before any of the budget is spent."""
    first = source.first()
    if first is None:
        return
    try:
        stream.admit(first, unit_hash=_any_unit)
    except ColumnAbsent as error:
        raise ConfigurationError(
            f"{error}; correct [columns], [targets], [unit] or [schedule], or the input"
        ) from None


def _any_unit(identifier: bytes) -> bytes:
    """Stands for every unit: at this look nobody is counted."""
    del identifier
    return bytes(IDENTIFIER_BYTES)


def _stream(
    stream: Stream[Any],
    source: Source,
    folder: RunFolder,
    config: Config,
    total: int | None,
    *,
    publish_next: bool,
) -> Mapping[str, Any]:
    store = SqliteStore(folder.store)
    sinks = (ReleaseLog(folder.releases),)
    new = 0
    with progress_line(total) as shown:
        session = Session(stream, store=store, sinks=sinks, on_progress=shown)
        with session:
            if publish_next:
                session.publish_next()
            try:
                for _ in session.run(source):
                    new += 1
            finally:
                # Whatever stopped the stream, what was committed is shown whole.
                _write_files(session, folder, config)
            row = store.last_release()
            last = None if row is None else from_line(row.line)
            return {
                "folder": str(folder.root),
                # A clock's ticks hide how many records came; so does this summary.
                "records": None if _hides_records(config) else session.records,
                "wanted": _first_release(config, stream.schedule),
                "tick": 0 if last is None else last.tick,
                "new_releases": new,
                "epsilon_spent": session.ledger.spent().epsilon(stream.budget.delta),
                "epsilon": stream.budget.epsilon,
                "delta": stream.budget.delta,
                "promise": stream.learner.promise.value,
                "ledger_head": session.ledger.head,
                "log_head": None if row is None else row.digest.hex(),
                "insecure_seed": stream.insecure_seed is not None,
                "model": None if last is None else last.value,
            }


def _first_release(config: Config, schedule: Schedule) -> int | None:
    """After how many records; None where a clock, or who asks, decides that."""
    if config.batch is not None:
        return config.batch.records
    if not isinstance(schedule, EveryRecords | Thinning) or not schedule.publish_every:
        return None
    return schedule.end(schedule.publish_every)


def _hides_records(config: Config) -> bool:
    return config.schedule is not None and config.schedule.every is None


def _write_files(session: Session[Any], folder: RunFolder, config: Config) -> None:
    stream, ledger = session.stream, session.ledger
    budget = {"epsilon": stream.budget.epsilon, "delta": stream.budget.delta}
    spent = ledger.spent().epsilon(stream.budget.delta)
    write_public(
        folder.ledger, ledger_json(ledger.rows, head=ledger.head, budget=budget, spent=spent)
    )
    releases = thin_out(session.releases())
    if not releases:
        return
    write_public(folder.model, model_json(stream.identity(), releases[-1]))
    if releases[-1].value["kind"] in PREDICTING:
        model = SavedModel.of_release(releases[-1], domain=stream.domain, rows=ledger.rows)
        save_model(model, folder.saved)
    if config.output.report:
        forecasts = forecast_until(stream.learner, stream.schedule, releases[-1].tick)
        page = run_report(releases, identity=stream.identity(), ledger=ledger, forecasts=forecasts)
        write_public(folder.report, page)


def _print_summary(summary: Mapping[str, Any], folder: RunFolder) -> None:
    if summary["insecure_seed"]:
        sys.stderr.write("dpstream: INSECURE SEED: no privacy statement holds for this run\n")
    lines = [
        ("" if summary["records"] is None else f"{summary['records']:,} records, ")
        + f"{summary['new_releases']:,} new releases, "
        f"last tick {summary['tick']:,}",
        f"privacy: epsilon {summary['epsilon_spent']:.4g} of {summary['epsilon']:.4g} "
        f"at delta {summary['delta']:.3g}; {summary['promise']}",
        f"head of the log, for dpstream verify --head: {summary['log_head'] or 'none yet'}",
    ]
    if summary["model"] is None:
        lines.append(
            "no release yet: no tick that publishes has closed; continue with --resume"
            if summary["wanted"] is None
            else f"no release yet: the first comes with record {summary['wanted']:,}; continue "
            "with --resume and the records that follow"
        )
    else:
        lines += describe_model(summary["model"])
        lines += [f"model: {folder.model}", f"report: {folder.report}"]
        if folder.saved.exists():
            lines.append(f"to predict with: {folder.saved} (dpstream.saved.load_model)")
    print_text(*lines)
