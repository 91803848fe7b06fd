import os
import subprocess
import sys
from dataclasses import replace

from dpstream.stores.lease import Holder


def test_a_holder_reads_back_and_lives_until_it_retires():
    holder = Holder.this()
    assert Holder.from_text(holder.to_text()) == holder
    assert not holder.is_dead()
    holder.retire()
    assert holder.is_dead()


def test_two_writers_of_one_process_are_told_apart():
    first, second = Holder.this(), Holder.this()
    first.retire()
    assert first.is_dead()
    assert not second.is_dead()
    second.retire()


def test_a_process_that_ended_is_dead_and_one_that_runs_is_not():
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    holder = replace(Holder.this(), process=child.pid, started=_started(child.pid))
    assert not holder.is_dead()
    # The number is in use, but by a process that started at another time.
    assert replace(holder, started="1").is_dead()
    child.communicate(b"\n")
    assert holder.is_dead()


def test_a_process_elsewhere_cannot_be_seen_and_counts_as_alive():
    holder = replace(Holder.this(), host="elsewhere boot namespace", process=os.getpid())
    holder.retire()
    assert not holder.is_dead()


def _started(process: int) -> str:
    with open(f"/proc/{process}/stat") as file:
        return file.read().rpartition(")")[2].split()[19]
