"""A progress line on a terminal, nothing in a pipe."""

import sys
import time
from collections.abc import Generator
from contextlib import contextmanager

from dpstream.engine.ports import OnProgress, Progress, ignore_progress


@contextmanager
def progress_line(total: int | None) -> Generator[OnProgress]:
    """Shows records, records per second and, if the total is known, the time left."""
    if not sys.stderr.isatty():
        yield ignore_progress
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )
    from rich.progress import (
        Progress as Bar,
    )

    last = TimeRemainingColumn() if total else TimeElapsedColumn()
    columns = (TextColumn("{task.description}"), BarColumn(), last)
    started = time.perf_counter()
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("reading", total=total)

        def show(progress: Progress) -> None:
            speed = progress.records / max(time.perf_counter() - started, 1e-9)
            text = f"{progress.records:,} records, {speed:,.0f}/s, {progress.releases:,} releases"
            bar.update(task, completed=progress.records, description=text)

        yield show
