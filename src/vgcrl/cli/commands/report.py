"""`vgcrl report`, one HTML file about runs."""

import argparse

from vgcrl.cli.config_options import Usual
from vgcrl.cli.values import PATH


def add_options(parser: argparse.ArgumentParser, _: Usual) -> None:
    parser.add_argument("dirs", type=PATH, nargs="+", metavar="RUN", help="a run; others are compared with the first")
    parser.add_argument("--out", type=PATH, metavar="FILE", help="[report.html in the first RUN]")


def run(args: argparse.Namespace) -> int:
    from vgcrl.experiments.reports import report

    print(f"report: {report(*args.dirs, out=args.out)}")
    return 0
