"""Programs of the paper's tables side by side on one NVIDIA GPU, each group in a process of its own.

    python tools/side_by_side.py OUT 'discrete Humanoid-G10,Humanoid-G20' 'continuous Humanoid-G5-gmm' -- --seeds 5

A group is an experiment and the programs that `train_together.py train` shall train together; options after -- are of
all groups. Processes share the GPU by MPS, and its memory equally. Policies are evaluated on CPUs as they are saved,
and once right after the start, so that what cannot work is seen then. Ctrl-C or SIGTERM, which this process alone
hears, saves and evaluates what there is. Logs are OUT/1.log, OUT/2.log, ... and OUT/EXPERIMENT.log. Exits with 1 where
a group or an evaluation failed.
"""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

TOOL = [sys.executable, str(Path(__file__).with_name("train_together.py"))]
PAUSE = 0.5  # seconds between two looks at what still runs


def main(words: list[str]) -> int:
    end = words.index("--") if "--" in words else len(words)
    groups = [group.split() for group in words[1:end]]
    if not groups or any(len(group) != 2 for group in groups):
        print(__doc__, file=sys.stderr)
        return 2
    out = Path(words[0])
    pipes = out.absolute() / ".mps"
    pipes.mkdir(parents=True, exist_ok=True)
    os.environ.update(PYTHONUNBUFFERED="1", CUDA_MPS_PIPE_DIRECTORY=str(pipes), CUDA_MPS_LOG_DIRECTORY=str(pipes))
    control = shutil.which("nvidia-cuda-mps-control")
    shares = control is not None and subprocess.run([control, "-d"], check=False).returncode == 0
    try:
        return side_by_side(out, groups, words[end + 1 :])
    finally:
        if shares:
            subprocess.run([control], input=b"quit\n", check=False)


def side_by_side(out: Path, groups: list[list[str]], options: list[str]) -> int:
    """Trains all groups and examines their policies beside; the exit code."""
    stopped = []
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopped.append(True))
    memory = {"XLA_PYTHON_CLIENT_MEM_FRACTION": str(0.8 / len(groups))}
    trainers = {
        str(1 + i): start(out / f"{1 + i}.log", [*TOOL, "train", *group, "--out", out, *options], memory)
        for i, group in enumerate(groups)
    }
    beside = ["--out", out, "--beside", *(str(one.pid) for one in trainers.values())]
    examiners = {
        name: start(out / f"{name}.log", ["nice", *TOOL, "examine", name, *beside], {"JAX_PLATFORMS": "cpu"})
        for name in dict.fromkeys(experiment for experiment, _ in groups)
    }
    left, failed = trainers | examiners, 0
    while left:
        if stopped:
            stopped.clear()
            for trainer in trainers.values():
                trainer.terminate()
        time.sleep(PAUSE)
        for name in [name for name, process in left.items() if process.poll() is not None]:
            if left.pop(name).returncode:
                failed = 1
                print(f"{name}: failed", *last_lines(out / f"{name}.log"), sep="\n", file=sys.stderr)
    return failed


def start(log: Path, command: list, variables: dict[str, str]) -> subprocess.Popen:
    """In a session of its own, which a terminal's Ctrl-C does not reach."""
    with log.open("w", encoding="utf-8") as lines:
        both = {"stdout": lines, "stderr": subprocess.STDOUT}
        return subprocess.Popen(command, env=os.environ | variables, start_new_session=True, **both)


def last_lines(log: Path) -> list[str]:
    return log.read_text(encoding="utf-8").splitlines()[-3:]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
