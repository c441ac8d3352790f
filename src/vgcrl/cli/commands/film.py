"""`vgcrl film`, which writes a film of skills or goals."""

import argparse

from vgcrl.cli.acting_options import add_goal_options, add_noise_option
from vgcrl.cli.config_options import Usual
from vgcrl.cli.values import PARSERS, PATH


def add_options(parser: argparse.ArgumentParser, _: Usual) -> None:
    parser.add_argument("run", metavar="RUN|POLICY", help="a run folder, or one of `vgcrl list policies`")
    add_goal_options(parser, " [some that differ]")
    parser.add_argument("--tour", action="store_true", help="one robot pursues all of them, one after the other")
    parser.add_argument("--together", action="store_true", help="all robots in one scene, each with its trail")
    parser.add_argument(
        "--seconds",
        type=PARSERS[float],
        default=8.0,
        metavar="S",
        help="length in simulated time; without a robot at most an episode [8]",
    )
    add_noise_option(parser)
    parser.add_argument("--tensorboard", action="store_true", help="also add the .gif to the run's events")
    parser.add_argument("--seed", type=PARSERS[int], metavar="S", help="seed whose policy acts [the run's first]")
    parser.add_argument(
        "--setting", type=PARSERS[int], metavar="K", help="which of several settings, counted from 0 [0]"
    )
    parser.add_argument("--out", type=PATH, metavar="FILE", help=".gif, .mp4 or .png [film.gif in RUN; POLICY.gif]")


def run(args: argparse.Namespace) -> int:
    from vgcrl.show.watch import film

    names = ("out", "seconds", "seed", "setting", "tour", "together", "noise", "tensorboard")
    asked = {name: getattr(args, name) for name in names}
    print(f"film: {film(args.run, goals=args.goals, **asked)}")
    return 0
