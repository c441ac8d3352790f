"""`vgcrl`, and `python -m vgcrl`."""

import os
import signal
import sys
from contextlib import suppress


def _with_standard_files() -> None:
    """Where one of the three is closed, what is opened next would take its number and be written into."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        with suppress(OSError):
            os.fstat(number)
            continue
        os.open(os.devnull, os.O_RDWR)  # takes the least number that is free
        setattr(sys, name, open(number, "w" if number else "r", encoding="utf-8", closefd=False))  # noqa: SIM115


def _without_current_folder() -> None:
    """`python -m` would import whatever lies in the current folder; a command imports what is installed."""
    named = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    with suppress(FileNotFoundError):  # in a folder that was removed lies nothing
        here = os.path.realpath(os.getcwd())
        if sys.path[:1] in ([""], [os.getcwd()], [here]) and here not in map(os.path.realpath, filter(None, named)):
            del sys.path[0]


def main() -> int:
    """Until all is imported there is nothing to lose, and Ctrl-C just ends."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # in the background it may be ignored
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    _with_standard_files()
    _without_current_folder()
    from vgcrl.cli import main
    from vgcrl.training.signals import watched

    with watched():
        return main()


if __name__ == "__main__":
    sys.exit(main())
