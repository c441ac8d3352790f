"""`vgcrl`, and `python -m vgcrl`."""

import signal
import sys


def main() -> int:
    """Until all is imported there is nothing to lose, and Ctrl-C just ends."""
    handler = signal.getsignal(signal.SIGINT)
    if handler is signal.default_int_handler:  # in the background it may be ignored
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from vgcrl.cli import main

    signal.signal(signal.SIGINT, handler)
    return main()


if __name__ == "__main__":
    sys.exit(main())
