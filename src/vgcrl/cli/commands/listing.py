"""`vgcrl list`: methods, environments, experiments, target states, policies."""

import argparse

from vgcrl.cli.commands.experts import print_experts
from vgcrl.cli.config_options import Usual
from vgcrl.cli.output import print_table
from vgcrl.errors import missing_for_reports, need_report
from vgcrl.training.fields import flag, one_of


def _print_methods() -> None:
    from vgcrl.objective.methods import METHODS

    rows = [[n, m.space, m.prior, m.q, m.learned, m.technique] for n, m in METHODS.items()]
    print_table(["method", "goal space", "prior", "q(z|s)", "learned", "technique"], rows)


def _print_envs() -> None:
    from vgcrl.envs import ENVS

    rows = [[n, " ".join(map(flag, row.options)), row.describe] for n, row in ENVS.items()]
    print_table(["env", "options", "what it is"], rows)


def _print_experiments() -> None:
    need_report("list experiments")
    from vgcrl.experiments import EXPERIMENTS

    print_table(["experiment", "claim"], [[n, e.claim] for n, e in EXPERIMENTS.items()])


def _print_targets() -> None:
    from vgcrl.envs import ENVS
    from vgcrl.measure import target_states

    for env, path in ((env, target_states.shipped(env)) for env in ENVS):
        if path is not None:
            found = target_states.read(path)
            print_experts(found, f"{env}, {found.facts['steps']:,} steps of `{found.facts['command']}`")
            for facts in (found.facts, *found.facts.get("before", [])):
                print(f"{facts['command']}: {facts.get('remark', 'as that command writes it')}")


def _print_policies() -> None:
    from vgcrl.show.tables import reached
    from vgcrl.use import policies

    cards = {name: policies.card(name) for name in policies.names()}
    found = {n: reached(policies.metrics_of(c)) + ", with noise" * c.get("noise", False) for n, c in cards.items()}
    rows = [[n, c["method"], c["env"], f"{c['steps']:,}", found[n], c["about"]] for n, c in cards.items()]
    print_table(["policy", "method", "env", "steps", "measured", "what it does"], rows)
    print("\ntrained with")
    print_table(["policy", "command"], [[name, told["command"]] for name, told in cards.items()])


LISTED = {
    "methods": _print_methods,
    "envs": _print_envs,
    "experiments": _print_experiments,
    "targets": _print_targets,
    "policies": _print_policies,
}


def add_options(parser: argparse.ArgumentParser, _: Usual) -> None:
    parser.add_argument("what", nargs="?", metavar="|".join(LISTED))


def run(args: argparse.Namespace) -> int:
    if args.what is not None:
        one_of("list", args.what, LISTED)
        LISTED[args.what]()
        return 0
    _print_methods()
    _print_envs()
    if not missing_for_reports():
        _print_experiments()
    print("\nmore: vgcrl list policies, vgcrl list targets")
    return 0
