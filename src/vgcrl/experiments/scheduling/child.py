"""Runs a module as a process that ends when its parent does, so that it never disturbs its own restart elsewhere.

It is run by its path, with the module and its arguments. Standard input is a pipe that the parent holds open and never
writes to.
"""

import os
import runpy
import sys
import threading

ORPHANED = 137  # exit code, as of a process that was killed


def end_with_parent() -> None:
    os.read(0, 1)  # returns when the parent closes the pipe or is no more
    os._exit(ORPHANED)


if __name__ == "__main__":
    threading.Thread(target=end_with_parent, daemon=True).start()
    sys.argv = sys.argv[1:]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
