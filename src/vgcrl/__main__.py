"""`vgcrl`, and `python -m vgcrl`."""

import os
import signal
import sys


def _without_current_folder() -> None:
    """`python -m` would import whatever lies in the current folder; a command imports what is installed."""
    named = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    here = os.path.realpath(os.getcwd())
    if sys.path[:1] in ([""], [os.getcwd()], [here]) and here not in map(os.path.realpath, filter(None, named)):
        del sys.path[0]


def main() -> int:
    """Until all is imported there is nothing to lose, and Ctrl-C just ends."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # in the background it may be ignored
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    _without_current_folder()
    from vgcrl.cli import main
    from vgcrl.training.signals import watched

    with watched():
        return main()


if __name__ == "__main__":
    sys.exit(main())
