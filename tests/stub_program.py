"""A program of five steps that takes no time, with a checkpoint at each: `stub_program MODE NAME --out DIR`.

Keeps in DIR/stubs/runs/NAME what it did: `starts` and `steps`, one line each; and `gpus`, what it is told of them.
Modes: `runs`; `waits` after its third step until DIR/stubs/go is there; `fails`; `killed` at its start, always.
"""

import fcntl
import os
import signal
import sys
import time
from pathlib import Path

GPUS = ("CUDA_VISIBLE_DEVICES", "XLA_PYTHON_CLIENT_MEM_FRACTION")


def lines(path):
    return path.read_text().split() if path.exists() else []


def main(mode, name, _, out):
    folder = Path(out) / "stubs"
    run, go = folder / "runs" / name, folder / "go"
    run.mkdir(parents=True, exist_ok=True)
    with (run / ".lock").open("w") as lock, (run / "starts").open("a") as starts, (run / "steps").open("a") as steps:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        print(os.getpid(), file=starts, flush=True)
        (run / "gpus").write_text(" ".join(os.environ.get(name, "-") for name in GPUS))
        if mode == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        if mode == "fails":
            print("stub_program: it always fails", file=sys.stderr)
            return 2
        for step in range(len(lines(run / "steps")) + 1, 6):
            print(step, file=steps, flush=True)
            print(f"step {step:>9,}  {1000:>7,} steps/s per run  {5 - step:>5} s left  F 1.00", file=sys.stderr)
            while mode == "waits" and step == 3 and not go.exists():
                time.sleep(0.05)
    return 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(130))
    sys.exit(main(*sys.argv[1:]))
