"""The output of commands on stdout and stderr, also where it cannot be written."""

import ctypes
import os
import sys
from collections.abc import Generator
from contextlib import ExitStack, contextmanager, redirect_stdout, suppress
from typing import TextIO


def say(text: str) -> None:
    try:
        print(text, file=sys.stderr)
    except OSError:  # nobody can be told
        drop(sys.stderr)


def drop(stream: TextIO) -> None:
    """Sends what is left of an output that cannot be written, and all that follows, to /dev/null."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


@contextmanager
def nothing_on_stdout() -> Generator[None]:
    """Sends to stderr what an environment or a peer prints, also from C and from worker processes."""
    if sys.stdout:  # it may have been closed
        sys.stdout.flush()
    with redirect_stdout(sys.stderr), ExitStack() as stack:
        with suppress(OSError):  # one of both is closed
            kept = os.dup(1)
            stack.callback(os.close, kept)
            os.dup2(2, 1)
            stack.callback(os.dup2, kept, 1)
            stack.callback(ctypes.CDLL(None).fflush, None)  # what C has not written yet
        yield


def print_table(columns: list[str], rows: list[list[str]]) -> None:
    from vgcrl.show.tables import Table, aligned

    print(*aligned(Table(columns, rows)), sep="\n")
