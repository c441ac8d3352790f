"""`vgcrl experts`, which makes target states for LGR(s)."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from vgcrl.cli.config_options import Usual, add_config_options, options_of
from vgcrl.cli.output import print_table, say
from vgcrl.cli.values import PARSERS, PATH
from vgcrl.errors import UsageError
from vgcrl.training.fields import flag

if TYPE_CHECKING:  # what takes JAX is imported where it is used, so that --help answers at once
    from vgcrl.measure.target_states import Experts


def add_options(parser: argparse.ArgumentParser, usual: Usual) -> None:
    parser.add_argument("--env", required=True, metavar="ENV", help="an environment with known velocities")
    if usual is not None:
        from vgcrl.use.experts import EXPERT, FIXED

        add_config_options(parser, EXPERT, (*FIXED, "env"))
    parser.add_argument("--policy", metavar="RUN", help="record this run or policy of velocities; train nothing")
    turn = "with --policy: turn Ant and Humanoid towards their target, so that only the speed counts"
    parser.add_argument("--turn", type=PARSERS[bool], metavar="yes|no", help=f"{turn} [no]")
    parser.add_argument("--out", type=PATH, metavar="FILE", help="[targets/ENV.safetensors]")


def run(args: argparse.Namespace) -> int:
    from vgcrl.use.experts import EXPERT, experts, recorded

    out, given = args.out or Path("targets") / f"{args.env}.safetensors", options_of(args)
    if args.policy is not None:
        trained = [flag(name) for name in given if name != "env"]
        if trained:
            raise UsageError(f"--policy trains nothing, so {trained[0]} has no meaning; valid: one of the two")
        found = recorded(args.policy, args.env, out, say, bool(args.turn))
    elif args.turn is not None:
        raise UsageError("--turn is of recordings; valid: with --policy")
    else:
        found = experts(EXPERT | given, out, say)
    if found is None:
        return 130
    print_experts(found, str(out))
    return 0


def print_experts(found: "Experts", where: str) -> None:
    from vgcrl.measure.target_states import TOLERANCE

    asked, achieved = ([" ".join(f"{x:.2f}" for x in row) for row in rows] for rows in (found.asked, found.achieved))
    pairs = zip(found.fell, found.missed, strict=True)
    marks = ["fell" if fell else "missed" if missed else "" for fell, missed in pairs]
    rows = [list(row) for row in zip(asked, achieved, map("{:,}".format, found.steps), marks, strict=True)]
    print_table(["asked m/s", "achieved m/s", "after steps", ""], rows)
    missed = f"{int(found.missed.sum())} missed by more than {TOLERANCE} m/s"
    print(f"{len(found.states)} states of {len(rows)} experts, {missed}: {where}")
