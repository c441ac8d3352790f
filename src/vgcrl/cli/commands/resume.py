"""`vgcrl resume`, which continues a run."""

import argparse

from vgcrl.cli.commands.train import add_watching_options, finish, prepare_film
from vgcrl.cli.config_options import Usual
from vgcrl.cli.values import AT_LEAST_ONE, PATH


def add_options(parser: argparse.ArgumentParser, _: Usual) -> None:
    parser.add_argument("dir", type=PATH, metavar="RUN", help="a run folder")
    parser.add_argument("--steps", type=AT_LEAST_ONE, metavar="N", help="steps in all, if more than first asked for")
    add_watching_options(parser)


def run(args: argparse.Namespace) -> int:
    from vgcrl.training.run_folder import read_config
    from vgcrl.training.trainer import resume
    from vgcrl.use.callbacks import watching

    if args.film:
        prepare_film(read_config(args.dir).env, lambda: read_config(args.dir))
    with watching(lambda: read_config(args.dir), stop=args.stop_when, wandb=args.wandb) as watch:
        resumed = resume(args.dir, args.steps, callback=watch, reached=watch.reached)
    return finish(resumed, watch.stopped, args.film)
