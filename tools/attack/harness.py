"""Commands called in this process, how they end, and the count of what held."""

import contextlib
import io
import os
import signal
import sys
import traceback
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0")  # more is compiled than run

from tiny import flags
from vgcrl import cli
from vgcrl.bench import speeds
from vgcrl.training import host_program, trainer

PATIENCE = 300  # seconds of one command; more is a hang
TRAIN = flags(seeds=1)
PROGRAMS = (host_program.NativeProgram, host_program.HostProgram)


class Accepted(BaseException):
    """Raised where a command would begin to compute."""


class Hang(BaseException):
    """A command took longer than PATIENCE."""


def _accept(*_: Any, **__: Any) -> Any:
    raise Accepted


@contextlib.contextmanager
def stubs():
    """Commands end in `Accepted` where they would compile."""
    places = [(trainer, "train_loop"), (speeds, "_per_second")]
    for program in PROGRAMS:
        places += [(program, name) for name in ("init", "evaluate", "record_episodes")]
    before = [(place, name, getattr(place, name)) for place, name in places]
    for place, name, _ in before:
        setattr(place, name, _accept)
    try:
        yield
    finally:
        for place, name, function in before:
            setattr(place, name, function)


def call(words: list[str]) -> tuple[Any, str]:
    """What a command ends with, an exit code or an exception, and what it says on stderr."""
    said = io.StringIO()

    def late(*_: Any) -> None:
        raise Hang

    signal.signal(signal.SIGALRM, late)
    signal.alarm(PATIENCE)
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
        try:
            end: Any = cli.main(words)
        except SystemExit as error:
            end = error.code or 0
        except BaseException as error:
            end = error
        finally:
            signal.alarm(0)
    return end, said.getvalue()


def in_order(end: Any, said: str) -> bool:
    """Whether a command ended as the contract says: done, accepted, or refused in one line."""
    return end == 0 or isinstance(end, Accepted) or (end == 2 and said.splitlines()[-1:] != [] and _one_line(said))


def _one_line(said: str) -> bool:
    """The last line is the error; those before it may be notes, never a traceback."""
    return said.splitlines()[-1].startswith("vgcrl: ") and "Traceback" not in said


class Score:
    """Counts, and what broke, by kind of attack."""

    def __init__(self) -> None:
        self.tried: dict[str, int] = {}
        self.broke: list[tuple[str, str]] = []

    def count(self, kind: str, held: bool, what: str) -> None:
        self.tried[kind] = self.tried.get(kind, 0) + 1
        if not held:
            self.broke.append((kind, what))
            print(f"broke: {kind}: {what}", flush=True)

    def table(self) -> str:
        rows = [("attack", "tried", "held", "broke")]
        for kind, tried in self.tried.items():
            broke = sum(k == kind for k, _ in self.broke)
            rows.append((kind, str(tried), str(tried - broke), str(broke)))
        return "\n".join(f"{kind:24}{tried:>8}{held:>8}{broke:>8}" for kind, tried, held, broke in rows)


def ending(end: Any, said: str) -> str:
    if isinstance(end, BaseException):
        frame = traceback.extract_tb(end.__traceback__)[-1:]
        return f"{end!r} at {frame}"[:400]
    return f"exit code {end}, {said[-300:]!r}"
