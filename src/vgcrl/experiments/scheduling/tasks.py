"""The scheduling interface: a task trains one program, an executor carries out many; `here` does so one by one."""

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from vgcrl.errors import UsageError
from vgcrl.show.tables import counted
from vgcrl.training.signals import of_many, request_stop

Say = Callable[[str], None]


class Task(NamedTuple):
    """A program to train. Its files are `runs/NAME/` and `cells/NAME.*` in the experiment's folder.

    `make()` trains it, from its last checkpoint if there is one. It raises UsageError where the program fails, and
    KeyboardInterrupt where it was stopped and saved.
    """

    name: str
    make: Callable[[], None]
    words: tuple[str, ...]  # `vgcrl WORDS --out DIR` is make() in a process of its own
    work: float = 0.0  # seconds it will take, or what is proportional to them; the longest start first
    module: str = "vgcrl"  # `python -m MODULE WORDS` is the same command


# (tasks, the experiment's folder, what is told on the way) -> a line for each task that failed
Executor = Callable[[list[Task], Path, Say], list[str]]


class Stopped(KeyboardInterrupt):
    """Says that an executor was stopped; `failed` has a line for each task that had failed before."""

    def __init__(self, failed: list[str]):
        super().__init__()
        self.failed = failed


def here(tasks: list[Task], folder: Path, say: Say) -> list[str]:
    """Carries out tasks one after the other in this process, and returns a line for each that failed."""
    failed = []
    for task in tasks:
        try:
            task.make()
        except UsageError as error:
            failed.append(f"{task.name}: {error}")
            say(failed[-1])
        except KeyboardInterrupt:
            raise Stopped(failed) from None
    return failed


def carried_out(make: Callable[[], list[str]], folder: Path, say: Say, minutes: float = 0) -> tuple[list[str], bool]:
    """Calls `make`; returns its lines, one for each task that failed, and whether the user stopped it.

    After so many minutes it is stopped as by Ctrl-C, which does not count as the user's doing; 0 is no limit.
    """
    spent, again = [], f"the same command continues in {folder}"

    def stop(*_: Any) -> None:
        spent.append(True)
        request_stop()

    before = signal.signal(signal.SIGALRM, stop)
    try:
        signal.setitimer(signal.ITIMER_REAL, 60 * minutes)
        with of_many(again):
            return make(), False
    except KeyboardInterrupt as ended:
        say(f"stopped and saved; {again}")
        return ended.failed if isinstance(ended, Stopped) else [], not spent
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def check_failed(failed: list[str], of: int) -> None:
    if failed:
        raise UsageError(f"{len(failed)} of {counted(of, 'program')} failed: {failed[0]}")
