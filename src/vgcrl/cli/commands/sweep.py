"""`vgcrl sweep`, which trains with several values of any option."""

import argparse
from pathlib import Path
from typing import Any

from vgcrl.cli.config_options import Usual, add_config_options
from vgcrl.cli.output import print_table, say
from vgcrl.cli.scheduling_options import add_ray_options, check_minutes, executor
from vgcrl.cli.values import AT_LEAST_ONE, PARSERS, PATH, parser_of
from vgcrl.errors import UsageError, need_report
from vgcrl.training.fields import flag, kind_of, one_of

SEARCHES = ("random", "asha", "optuna")


def add_options(parser: argparse.ArgumentParser, usual: Usual) -> None:
    if usual is not None:
        add_config_options(parser, {}, raw=True)
    parser.add_argument("--optimise", default="F", metavar="METRIC", help="metric that orders settings [F]")
    parser.add_argument("--trials", type=AT_LEAST_ONE, metavar="N", help="try N combinations, not all")
    parser.add_argument("--search", default="random", metavar="|".join(SEARCHES), help="how trials are chosen [random]")
    parser.add_argument("--minutes", type=PARSERS[float], metavar="M", help="stop and save after M minutes")
    parser.add_argument("--dry-run", action="store_true", help="print what would be trained, and stop")
    parser.add_argument("--program", metavar="P", help="train this program only, without a report")
    parser.add_argument(
        "--out", type=PATH, default=Path("sweeps"), metavar="DIR", help="writes DIR/METHOD-ENV [sweeps]"
    )
    add_ray_options(parser)


def values_of(args: argparse.Namespace) -> dict[str, Any]:
    """Returns the options of a sweep, each with its values or a range."""
    from vgcrl.experiments.sweep import read_values
    from vgcrl.training.config import FIELDS, KNOBS

    out = {}
    for name, field in FIELDS.items():
        given, kind = getattr(args, name, None), kind_of(field)
        if given is None:
            continue
        try:
            one = PARSERS[kind.each] if name in KNOBS else parser_of(kind)
            out[name] = [tuple(given)] if name == "env_arg" else read_values(name, given, one)
        except argparse.ArgumentTypeError as error:
            raise UsageError(f"argument {flag(name)}: {error}") from None
    return out


def run(args: argparse.Namespace) -> int:
    need_report("sweep")
    from vgcrl.experiments.sweep import Ask, plan, sweep

    one_of("--search", args.search, SEARCHES)
    check_minutes(args.minutes)
    if args.search != "random" and args.trials is None:
        raise UsageError(f"--search {args.search} is of trials; valid: --trials N with it")
    same = {name: getattr(args, name) for name in ("program", "minutes", "trials", "search")}
    ask = Ask(values_of(args), args.optimise, **same, modules=tuple(args.modules))
    if args.trials is not None:
        args.ray = args.ray or "local"  # a search is Ray's
        plan(ask)  # which checks it, before Ray starts
    with executor(args) as execute:
        if args.dry_run:
            print_table(*plan(ask))
            return 0
        ending = sweep(ask, args.out / ask.name(), say, execute)
    if ending.report:
        print(f"report: {ending.report}")
    return 130 if ending.stopped else 0
