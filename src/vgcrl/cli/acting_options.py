"""Options that say how a policy acts on a page or in a film: for which goals, with noise or not."""

import argparse

from vgcrl.cli.values import PARSERS, checked, separated


def add_goal_options(parser: argparse.ArgumentParser, which: str) -> None:
    skills, goal = separated(int), separated(float)
    only = parser.add_mutually_exclusive_group()
    only.add_argument(
        "--skills",
        dest="goals",
        type=checked(skills, "integers separated by commas"),
        metavar="K1,K2",
        help=f"skills{which}",
    )
    only.add_argument(
        "--goal",
        dest="goals",
        type=checked(goal, "numbers separated by commas"),
        action="append",
        metavar="Z1,Z2",
        help="a goal, where goals are vectors; repeat for more",
    )


def add_noise_option(parser: argparse.ArgumentParser) -> None:
    usual = "[no; of a policy that is meant to, yes]"
    parser.add_argument("--noise", type=PARSERS[bool], metavar="yes|no", help=f"act with the noise of training {usual}")
