"""`vgcrl evaluate`, which measures a run or a policy."""

import argparse

from vgcrl.cli.config_options import Usual
from vgcrl.cli.output import nothing_on_stdout, print_table, say
from vgcrl.cli.values import EPISODE_COUNT, PARSERS, PATH


def add_options(parser: argparse.ArgumentParser, _: Usual) -> None:
    parser.add_argument("dir", metavar="RUN|POLICY", help="a run folder, or one of `vgcrl list policies`")
    parser.add_argument("--episodes", type=EPISODE_COUNT, metavar="N", help="episodes per run")
    parser.add_argument(
        "--targets", type=PATH, metavar="FILE", help="target states for LGR(s): .safetensors, .npy, .json or .csv"
    )
    parser.add_argument(
        "--noise", type=PARSERS[bool], default=False, metavar="yes|no", help="act with the noise of training [no]"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(args: argparse.Namespace) -> int:
    from vgcrl.training.logs import to_json
    from vgcrl.use.evaluate import evaluate_run
    from vgcrl.use.policies import folder_of

    with nothing_on_stdout():
        record = evaluate_run(folder_of(args.dir), args.episodes, args.targets, say, args.noise)
    if args.json:
        print(to_json(record))
        return 0
    from vgcrl.show.tables import metrics_table

    if args.noise:
        say("with the noise of training")
    print_table(*metrics_table(record))
    return 0
