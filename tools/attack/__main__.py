"""Attack commands, files, runs and folders, and print by kind what was tried, held and broke.

python tools/attack [--seed S] [--only commands,files,kills,folders] [--times 1.0]

Held is an exit code of the contract (0, 2 with one line on stderr, 130 where a signal came) and nothing lost, passed
unnoticed, executed or written elsewhere. What takes long in a command (compiling, drawing a film) is stubbed once its
input was accepted, but for kills, where runs are trained to the end and must be equal to the bit.
"""

import argparse
import os
import random
import sys
import tempfile
from pathlib import Path

from commands import attack_commands
from files import attack_files
from folders import attack_folders
from harness import TRAIN, Score, call
from kills import attack_runs, forked_kills, hear

from shared import compiled_once
from vgcrl.training import host_program


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--only", default="commands,files,kills,folders")
    options.add_argument("--times", type=float, default=1.0, help="more or fewer of each but folders")
    args = options.parse_args()
    kinds, rng, score = args.only.split(","), random.Random(args.seed), Score()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place).resolve()
        os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(folder / "cache"))
        sys.addaudithook(hear)
        dead = forked_kills(folder, rng, args.times) if "kills" in kinds else []
        host_program.NativeProgram = compiled_once(host_program.NativeProgram)  # ty: ignore
        run = folder / "run"
        end, said = call(["train", "--out", str(run), *TRAIN])
        assert end == 0, said
        if "commands" in kinds:
            attack_commands(score, run, folder, rng, args.times)
        if "files" in kinds:
            attack_files(score, run, folder, rng, args.times)
        if "folders" in kinds:
            attack_folders(score, run, folder)
        if "kills" in kinds:
            attack_runs(score, run, dead, folder, rng, args.times)
        os.chdir("/")
    print(score.table())
    return 1 if score.broke else 0


if __name__ == "__main__":
    sys.exit(main())
