"""`vgcrl explore`, which writes an interactive page."""

import argparse

from vgcrl.cli.acting_options import add_goal_options, add_noise_option
from vgcrl.cli.config_options import Usual
from vgcrl.cli.values import PATH


def add_options(parser: argparse.ArgumentParser, _: Usual) -> None:
    parser.add_argument("run", metavar="RUN|POLICY", help="a run folder, or one of `vgcrl list policies`")
    parser.add_argument("--out", type=PATH, metavar="FILE", help="[explore.html in RUN; POLICY.html]")
    parser.add_argument("--open", action="store_true", help="open it in the browser")
    add_goal_options(parser, " of recorded episodes, on a page that plays these back [8 that differ]")
    add_noise_option(parser)


def run(args: argparse.Namespace) -> int:
    from vgcrl.show.watch import explore

    print(f"page: {explore(args.run, out=args.out, goals=args.goals, open=args.open, noise=args.noise)}")
    return 0
