"""Options that say where the programs of an experiment or a sweep are trained, for how long."""

import argparse
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from vgcrl.cli.values import PARSERS
from vgcrl.errors import UsageError
from vgcrl.training.fields import flag


def add_ray_options(parser: argparse.ArgumentParser) -> None:
    ray = parser.add_argument_group("on many machines, or many GPUs of one")
    ray.add_argument("--ray", metavar="local|ADDRESS", help="run programs in parallel, here or on a Ray cluster")
    ray.add_argument("--gpus", type=PARSERS[float], metavar="N", help="GPUs per program, e.g. 0.5 [1 if there are any]")
    ray.add_argument("--cpus", type=PARSERS[float], metavar="N", help="cores reserved per program [1]")
    ray.add_argument("--storage", metavar="URL", help="where nodes without a shared folder keep runs, e.g. s3://…")


@contextmanager
def executor(args: argparse.Namespace) -> Generator[Any]:
    """Yields the executor that was asked for: here, or on a Ray cluster, which is connected to meanwhile."""
    from vgcrl.experiments.scheduling import here

    given = [name for name in ("gpus", "cpus", "storage") if getattr(args, name) is not None]
    if args.ray is None and given:
        raise UsageError(f"{flag(given[0])} does not apply without --ray; valid: --ray local or an address with it")
    if args.ray is None or args.dry_run:
        yield here
        return
    from vgcrl.experiments.scheduling.cluster import OnRay, Resources, check_share, connected

    check_share(resources := Resources(args.gpus, args.cpus, args.storage))
    with connected(args.ray) as dashboard:
        yield OnRay(resources, dashboard)


def check_minutes(minutes: float | None) -> None:
    if minutes is not None and not 0 < minutes <= 1e6:
        raise UsageError(f"--minutes {minutes:g} is out of range; valid: a positive number up to a million")
