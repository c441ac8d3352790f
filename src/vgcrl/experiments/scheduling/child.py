"""The process of a program: a command that ends when whoever started it does, so that nobody else's files are touched.

Run by its path, with a module and its arguments; standard input is a pipe that its parent holds and never writes to.
"""

import os
import runpy
import sys
import threading

ORPHANED = 137  # as of a process that was killed


def end_with_parent() -> None:
    os.read(0, 1)  # returns when the parent closes the pipe or is no more
    os._exit(ORPHANED)


if __name__ == "__main__":
    threading.Thread(target=end_with_parent, daemon=True).start()
    sys.argv = sys.argv[1:]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
