"""What the paper's tables take on many GPUs: the schedule simulated, from the speeds of the programs in `results`.

    python -m vgcrl.experiments.scheduling.simulation results --gpus 1,8,64 --failures 0.01

Longest first. A failure takes a GPU's program back to its last checkpoint and into the queue, and the GPU away for
a while. Times between failures are exponential, drawn from a seed: the same numbers at every run, means over 100.
"""

import argparse
import heapq
import json
import math
import random
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from vgcrl.experiments.discrete import ASIDES
from vgcrl.show.tables import Table, aligned

STEPS = 10_000_000  # of each run, in the paper
HOUR = 3600.0
DRAWS = 100  # simulations with random failures, over which is averaged
MOST_GPUS = 2**16
MOST_FAILURES = 10.0  # per GPU and hour
MOST_LOST = 5.0  # mean number of failures between a start and a checkpoint, which then takes e⁵ starts


class Program(NamedTuple):
    name: str
    runs: int
    seconds: float  # alone on a GPU


class Conditions(NamedTuple):
    failures: float = 0.0  # per GPU and hour
    checkpoint: float = 1200.0  # seconds between two
    start: float = 60.0  # seconds of a fresh process: Ray, imports, compilation, the checkpoint read
    noticed: float = 30.0  # seconds until a dead node is noticed
    repair: float = 600.0  # seconds until its GPU is back
    seed: int = 0


class Schedule(NamedTuple):
    seconds: float  # until the last program ends
    busy: float  # share of all GPU seconds that ended in results
    failures: int


def read_programs(results: Path) -> list[Program]:
    """Returns the programs of the paper's tables, timed at the speed that each had when it was trained."""
    out, beside = [], {aside.name for aside in ASIDES}
    for path in sorted(results.glob("*/cells/*.json")):
        cell, name = json.loads(path.read_text(encoding="utf-8")), path.name.partition(".")[0]
        if name not in beside:
            seconds = cell["wall_seconds"] * STEPS / cell["steps"]
            out.append(Program(f"{path.parts[-3]}/{name}", cell["runs"], seconds))
    return out


def simulate(programs: Iterable[Program], gpus: int, given: Conditions) -> Schedule:
    """Simulates the schedule on so many GPUs; each event is the time at which a GPU becomes free."""
    chance = random.Random(given.seed)
    waiting = [(program.seconds, 0.0) for program in programs]  # seconds left of each, and from when it may run
    useful, free, last, failures = sum(left for left, _ in waiting), [0.0] * gpus, 0.0, 0
    while waiting:
        now = heapq.heappop(free)
        ready = [each for each in waiting if each[1] <= now]
        if not ready:
            heapq.heappush(free, min(since for _, since in waiting))
            continue
        waiting.remove(longest := max(ready))
        left, fails = longest[0], now + (chance.expovariate(given.failures / HOUR) if given.failures else math.inf)
        ends = now + given.start + left
        if ends <= fails:
            heapq.heappush(free, ends)
            last = max(last, ends)
        else:
            saved = max(0.0, fails - now - given.start) // given.checkpoint * given.checkpoint
            waiting.append((left - saved, fails + given.noticed))
            heapq.heappush(free, fails + given.repair)
            failures += 1
    return Schedule(last, useful / (gpus * last), failures)


def table(programs: list[Program], gpus: Iterable[int], given: Conditions) -> Table:
    rows = []
    for count in gpus:
        plain = simulate(programs, count, given._replace(failures=0.0))
        faulty = [simulate(programs, count, given._replace(seed=given.seed + i)) for i in range(DRAWS)]
        seconds, busy, failures = (sum(column) / DRAWS for column in zip(*faulty, strict=True))
        ideal = max(sum(p.seconds for p in programs) / count, max(p.seconds for p in programs))
        hours = (f"{x / HOUR:.1f}" for x in (ideal, plain.seconds, seconds))
        rows.append([str(count), *hours, f"{failures:.1f}", f"{100 * busy:.0f} %"])
    return Table(["GPUs", "lower bound, h", "longest first, h", "with failures, h", "failures", "utilisation"], rows)


def _counts(text: str) -> list[int]:
    """Parses the numbers of GPUs that --gpus has, separated by commas."""
    try:
        counts = [int(x) for x in text.split(",")]
    except ValueError:
        counts = [0]
    if not all(1 <= count <= MOST_GPUS for count in counts):
        valid = f"integers from 1 to {MOST_GPUS} separated by commas"
        raise argparse.ArgumentTypeError(f"{text!r} is not valid; valid: {valid}")
    return counts


def fault(given: Conditions, longest: float) -> str:
    """Returns why programs of up to `longest` seconds cannot be simulated; empty where they can."""
    for name, x in given._asdict().items():
        if not 0 <= x < math.inf:
            return f"--{name} {x} is out of range; valid: a finite number from 0"
    if not given.checkpoint:
        return f"--checkpoint {given.checkpoint} is out of range; valid: a positive number"
    if given.failures > MOST_FAILURES:
        return f"--failures {given.failures} is out of range; valid: up to {MOST_FAILURES:g} per GPU and hour"
    if given.failures * (given.start + min(given.checkpoint, longest)) / HOUR > MOST_LOST:
        what = f"--failures {given.failures}: hardly a program would come to a checkpoint"
        return f"{what}; valid: at most {MOST_LOST:g} from a start to a checkpoint, see --start and --checkpoint"
    return ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path)
    parser.add_argument("--gpus", type=_counts, default="1,8,64", help="numbers of GPUs [1,8,64]")
    for name, default in Conditions()._asdict().items():
        parser.add_argument(f"--{name}", type=type(default), default=default, help=f"[{default}]")
    args = parser.parse_args()
    programs = read_programs(args.results)
    given = Conditions(**{name: getattr(args, name) for name in Conditions._fields})
    if not programs:
        parser.error(f"{args.results} has no programs; valid: a folder with */cells/*.json, such as results")
    if wrong := fault(given, max(p.seconds for p in programs)):
        parser.error(wrong)
    hours, longest = sum(p.seconds for p in programs) / HOUR, max(programs, key=lambda p: p.seconds)
    print(f"{len(programs)} programs, {sum(p.runs for p in programs)} runs, {hours:.0f} GPU hours", end="; ")
    print(f"the longest, {longest.name}, {longest.seconds / HOUR:.1f} h")
    print(*aligned(table(programs, args.gpus, given)), sep="\n")


if __name__ == "__main__":
    main()
