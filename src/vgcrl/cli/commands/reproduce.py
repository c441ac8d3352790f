"""`vgcrl reproduce`, which repeats an experiment of the paper."""

import argparse
import shlex
from pathlib import Path

from vgcrl.cli.config_options import Usual
from vgcrl.cli.output import say
from vgcrl.cli.scheduling_options import add_ray_options, check_minutes, executor
from vgcrl.cli.values import AT_LEAST_ONE, PARSERS, PATH, SIZES, WORDS
from vgcrl.errors import need_report
from vgcrl.training.fields import one_of


def add_options(parser: argparse.ArgumentParser, _: Usual) -> None:
    parser.add_argument("name", metavar="NAME|all")
    parser.add_argument("--quick", action="store_true", help="fewer seeds and steps: minutes on two CPU cores")
    parser.add_argument("--program", metavar="P", help="train this program only, without a report")
    parser.add_argument("--engine", metavar="E", help="engine of training; MuJoCo evaluates what Warp trains [auto]")
    parser.add_argument("--physics", metavar="exact|fast", help="physics of mjx and warp in training [exact]")
    parser.add_argument("--dry-run", action="store_true", help="print what would be trained, and stop")
    grid = parser.add_argument_group("for the tables of robots, discrete and continuous")
    grid.add_argument("--env", type=WORDS, default=(), metavar="E1,E2", help="only these robots")
    grid.add_argument("--goal-dim", type=SIZES, default=(), metavar="G1,G2", help="only these |G|")
    grid.add_argument("--steps", type=AT_LEAST_ONE, metavar="N", help="environment steps of each run [10,000,000]")
    grid.add_argument("--seeds", type=AT_LEAST_ONE, metavar="K", help="runs of each row [3]")
    grid.add_argument("--updates-per-step", type=PARSERS[float], metavar="U", help="updates per step [0.0625]")
    rates = "learning rate of q [3e-4; continuous and Humanoid 3e-5]"
    grid.add_argument("--posterior-learning-rate", type=PARSERS[float], metavar="R", help=rates)
    fall = "end an episode when the robot is unhealthy (Ant, Humanoid) [no; Humanoid yes]"
    grid.add_argument("--terminate", type=PARSERS[bool], metavar="yes|no", help=fall)
    grid.add_argument("--envs", type=AT_LEAST_ONE, metavar="E", help="environments of each run [512]")
    grid.add_argument("--looks", type=AT_LEAST_ONE, metavar="N", help="evaluations during training [4]")
    grid.add_argument("--minutes", type=PARSERS[float], metavar="M", help="stop and save after M minutes")
    grid.add_argument("--report", action="store_true", help="train nothing; write the report of what is trained")
    parser.add_argument("--out", type=PATH, default=Path("results"), metavar="DIR", help="[results]")
    add_ray_options(parser)


def run(args: argparse.Namespace) -> int:
    need_report("reproduce")
    from vgcrl.experiments import EXPERIMENTS, reproduce
    from vgcrl.experiments.request import Request

    one_of("experiment", args.name, [*EXPERIMENTS, "all"])
    check_minutes(args.minutes)
    ask = Request(**{name: getattr(args, name) for name in Request._fields})
    with executor(args) as execute:
        for name in EXPERIMENTS if args.name == "all" else [args.name]:
            command = shlex.join(["vgcrl", "reproduce", name, *ask._replace(minutes=None).words()])  # not how far
            ending = reproduce(name, args.out, ask, command, print if ask.dry_run else say, execute)
            if ending.report:
                print(f"report: {ending.report}")
            if ending.stopped:
                return 130
    return 0
