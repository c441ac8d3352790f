"""`vgcrl bench`, which measures speeds."""

import argparse
import os
import shlex
from typing import Any

from vgcrl.cli.config_options import Usual
from vgcrl.cli.output import nothing_on_stdout, print_table
from vgcrl.cli.values import AT_LEAST_ONE, PARSERS, PATH, SIZES, WORDS
from vgcrl.errors import UsageError, need_report


def add_options(parser: argparse.ArgumentParser, _: Usual) -> None:
    parser.add_argument("--peer", metavar="sb3|qdax", help="also time this peer, if it is installed")
    parser.add_argument("--env", default="HalfCheetah", metavar="ENV", help="see `vgcrl list envs` [HalfCheetah]")
    parser.add_argument(
        "--engine", type=WORDS, default=("auto",), metavar="E1,E2", help="simulators, one after the other [auto]"
    )
    parser.add_argument("--runs", type=SIZES, default=(1,), metavar="R1,R2", help="runs trained together [1]")
    parser.add_argument("--goal-dim", type=SIZES, default=(10,), metavar="G1,G2", help="numbers of skills [10]")
    parser.add_argument("--envs", type=AT_LEAST_ONE, metavar="E", help="per run [CPU 8; GPU 256, with many runs 128]")
    parser.add_argument(
        "--updates-per-step", type=PARSERS[float], metavar="U", help="updates per step [CPU 1, GPU 0.25]"
    )
    parser.add_argument(
        "--seconds", type=PARSERS[float], default=5.0, metavar="S", help="about how long each measurement takes [5]"
    )
    parser.add_argument("--plot", type=PATH, metavar="FILE", help="also draw a figure, as .png or .svg")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(args: argparse.Namespace) -> int:
    if not 0 < args.seconds <= 3600:
        raise UsageError(f"--seconds {args.seconds:g} is out of range; valid: a positive number up to 3600")
    if args.plot:
        need_report("bench --plot")
        there = next(folder for folder in args.plot.absolute().parents if folder.exists())
        if args.plot.suffix not in (".png", ".svg") or not there.is_dir() or not os.access(there, os.W_OK):
            raise UsageError(f"--plot {args.plot} cannot be drawn; valid: a .png or .svg where it can be written")
    from vgcrl.bench.speeds import bench

    with nothing_on_stdout():
        timed = bench(
            args.peer, args.env, args.engine, args.runs, args.goal_dim, args.envs, args.updates_per_step, args.seconds
        )
    record: dict[str, Any] = {"command": shlex.join(["vgcrl", *args.words]), **timed}
    _print_speeds(record, args.json)
    if args.plot:
        from vgcrl.show.figures import speed

        args.plot.parent.mkdir(parents=True, exist_ok=True)
        speed(record).savefig(args.plot)
    return 0


def _print_speeds(record: dict[str, Any], as_json: bool) -> None:
    from vgcrl.training.logs import to_json

    if as_json:
        print(to_json(record))
        return
    rows: list[dict[str, Any]] = record["training"]
    names = [k for k in rows[0] if k != "ratio_to_peer"]
    print_table(
        [k.replace("_", " ") for k in names],
        [[row[k] if isinstance(row[k], str) else f"{row[k]:,.4g}" for k in names] for row in rows],
    )
    print_table(["what", "value"], [[k.replace("_", " "), _in_words(v)] for k, v in record.items() if k != "training"])


def _in_words(x: Any) -> str:
    """Returns a part of a record as text, however deeply it is nested."""
    if isinstance(x, dict):
        return ", ".join(f"{k.replace('_', ' ')} {_in_words(v)}" for k, v in x.items())
    if isinstance(x, list):
        return ", ".join(map(_in_words, x))
    return f"{x:,.4g}" if isinstance(x, float) else f"{x:,}" if type(x) is int else str(x)
