"""What each command does, from parsed arguments to an exit code."""

import argparse
import ctypes
import os
import shlex
import sys
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager, redirect_stdout, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from vgcrl.errors import UsageError, install, missing_for_reports, need_report
from vgcrl.training.fields import flag, kind_of, one_of

if TYPE_CHECKING:  # what takes JAX is imported where it is used, so that --help answers at once
    from vgcrl.measure.target_states import Experts
    from vgcrl.training.config import Config
    from vgcrl.training.options import Options

from vgcrl.cli.parser import LISTED, PARSERS, SEARCHES, parser_of

REACHED = {"F": "F", "LGR(z)": "lgr_z", "LGR(s)": "lgr_s", "LGR_v": "lgr_v", "env success": "env_success"}


@contextmanager
def _executor(args: argparse.Namespace) -> Generator[Any]:
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


def say(text: str) -> None:
    try:
        print(text, file=sys.stderr)
    except OSError:  # nobody can be told
        drop(sys.stderr)


def drop(stream: TextIO) -> None:
    """Sends what is left of an output that cannot be written, and all that follows, to /dev/null."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


@contextmanager
def _nothing_on_stdout() -> Generator[None]:
    """Sends to stderr what an environment or a peer prints, also from C and from worker processes."""
    if sys.stdout:  # it may have been closed
        sys.stdout.flush()
    with redirect_stdout(sys.stderr), ExitStack() as stack:
        with suppress(OSError):  # one of both is closed
            kept = os.dup(1)
            stack.callback(os.close, kept)
            os.dup2(2, 1)
            stack.callback(os.dup2, kept, 1)
            stack.callback(ctypes.CDLL(None).fflush, None)  # what C has not written yet
        yield


def _finish(run: Any, enough: bool, film: bool) -> int:
    """Prints what a run reached, writes its report, page and film, and returns the exit code.

    `enough`: whether it was stopped because it reached what --stop-when asks.
    """
    from vgcrl.training.run_folder import command_for

    for name, group in zip(run.config.setting_names, run.last.get("settings", [run.last]), strict=True):
        mean = group.get("mean", {})
        shown = (f"{label} {mean[key]:.3f}" for label, key in REACHED.items() if mean.get(key) is not None)
        say(f"{name}{': ' if name else ''}{'  '.join(shown)}  after {run.last['step']:,} steps")
    if run.interrupted:
        why = ", as --stop-when asks" if enough else ""
        say(f"stopped and saved{why}; continue with: {command_for('resume', run.dir, run.config)}")
    if run.interrupted and not enough:
        return 130
    if not missing_for_reports():
        from vgcrl.show.compared import read_run
        from vgcrl.show.report import run_page, write

        page = _page_beside(run)
        print(f"report: {write([run_page(read_run(run.dir))], run.dir / 'report.html')}")
        print(f"page: {page}" if page else f"watch it: {command_for('explore', run.dir, run.config)}")
    else:
        print(f"run: {run.dir} (for a report: {install('report')})")
    if film:
        from vgcrl.show import watch

        print(f"film: {watch.film(run.dir, tensorboard=True)}, also among TensorBoard's images")
    return 0


def _page_beside(run: Any) -> Path | None:
    """Writes the page of a point mass and returns its path, or None for other environments.

    The page of a body has MuJoCo in it, so it is written only when asked for; what a plug-in registers may have none.
    """
    from vgcrl.show.explorer import explore
    from vgcrl.show.explorer.worlds import POINT_MASSES

    return explore(run.dir, None, say) if run.config.env in POINT_MASSES and not run.config.plugins else None


def options_of(args: argparse.Namespace) -> "Options":
    from vgcrl.training.config import FIELDS
    from vgcrl.training.options import Options

    given: dict[str, Any] = {name: getattr(args, name) for name in FIELDS if hasattr(args, name)}
    given |= {name: tuple(x) for name, x in given.items() if isinstance(x, list)}
    return Options(**given)


def _train(args: argparse.Namespace) -> int:
    from vgcrl.training.resolve import resolve
    from vgcrl.training.trainer import start
    from vgcrl.use.callbacks import watching

    options = options_of(args)
    if args.film:
        _prepare_film(args.env, lambda: resolve(options))
    with watching(lambda: resolve(options), stop=args.stop_when, wandb=args.wandb) as watch:
        run = start(options, args.out, callback=watch)
    return _finish(run, watch.stopped, args.film)


def _prepare_film(env: str | None, config: Callable[[], "Config"]) -> None:
    """Chooses a renderer before training, and raises UsageError where a film is known to be impossible."""
    need_report("--film")
    from vgcrl.show.film import check_filmable, find_renderer

    find_renderer(env or "")
    check_filmable(config())


def _resume(args: argparse.Namespace) -> int:
    from vgcrl.training.run_folder import read_config
    from vgcrl.training.trainer import resume
    from vgcrl.use.callbacks import watching

    if args.film:
        _prepare_film(read_config(args.dir).env, lambda: read_config(args.dir))
    with watching(lambda: read_config(args.dir), stop=args.stop_when, wandb=args.wandb) as watch:
        run = resume(args.dir, args.steps, callback=watch, reached=watch.reached)
    return _finish(run, watch.stopped, args.film)


def _evaluate(args: argparse.Namespace) -> int:
    from vgcrl.training.logs import to_json
    from vgcrl.use.evaluate import evaluate_run
    from vgcrl.use.policies import folder_of

    with _nothing_on_stdout():
        record = evaluate_run(folder_of(args.dir), args.episodes, args.targets, say, args.noise)
    if args.json:
        print(to_json(record))
        return 0
    from vgcrl.show.tables import metrics_table

    if args.noise:
        say("with the noise of training")
    _print_table(*metrics_table(record))
    return 0


def _experts(args: argparse.Namespace) -> int:
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
    _print_experts(found, str(out))
    return 0


def _print_experts(found: "Experts", where: str) -> None:
    from vgcrl.measure.target_states import TOLERANCE

    asked, achieved = ([" ".join(f"{x:.2f}" for x in row) for row in rows] for rows in (found.asked, found.achieved))
    pairs = zip(found.fell, found.missed, strict=True)
    marks = ["fell" if fell else "missed" if missed else "" for fell, missed in pairs]
    rows = [list(row) for row in zip(asked, achieved, map("{:,}".format, found.steps), marks, strict=True)]
    _print_table(["asked m/s", "achieved m/s", "after steps", ""], rows)
    missed = f"{int(found.missed.sum())} missed by more than {TOLERANCE} m/s"
    print(f"{len(found.states)} states of {len(rows)} experts, {missed}: {where}")


def _explore(args: argparse.Namespace) -> int:
    from vgcrl.show.watch import explore

    print(f"page: {explore(args.run, out=args.out, goals=args.goals, open=args.open, noise=args.noise)}")
    return 0


def _film(args: argparse.Namespace) -> int:
    from vgcrl.show.watch import film

    names = ("out", "seconds", "seed", "setting", "tour", "together", "noise", "tensorboard")
    asked = {name: getattr(args, name) for name in names}
    print(f"film: {film(args.run, goals=args.goals, **asked)}")
    return 0


def _report(args: argparse.Namespace) -> int:
    from vgcrl.experiments.reports import report

    print(f"report: {report(*args.dirs, out=args.out)}")
    return 0


def _print_table(columns: list[str], rows: list[list[str]]) -> None:
    from vgcrl.show.tables import Table, aligned

    print(*aligned(Table(columns, rows)), sep="\n")


def _list(args: argparse.Namespace) -> int:
    from vgcrl.envs import ENVS
    from vgcrl.objective.methods import METHODS

    if args.what is not None:
        one_of("list", args.what, LISTED)
    if args.what in (None, "methods"):
        rows = [[n, m.space, m.prior, m.q, m.learned, m.technique] for n, m in METHODS.items()]
        _print_table(["method", "goal space", "prior", "q(z|s)", "learned", "technique"], rows)
    if args.what in (None, "envs"):
        rows = [[n, " ".join(map(flag, row.options)), row.describe] for n, row in ENVS.items()]
        _print_table(["env", "options", "what it is"], rows)
    if args.what == "experiments":
        need_report("list experiments")
    if args.what in (None, "experiments") and not missing_for_reports():
        from vgcrl.experiments import EXPERIMENTS

        _print_table(["experiment", "claim"], [[n, e.claim] for n, e in EXPERIMENTS.items()])
    if args.what == "policies":
        from vgcrl.show.tables import reached
        from vgcrl.use import policies

        cards = {name: policies.card(name) for name in policies.names()}
        found = {n: reached(policies.metrics_of(c)) + ", with noise" * c.get("noise", False) for n, c in cards.items()}
        rows = [[n, c["method"], c["env"], f"{c['steps']:,}", found[n], c["about"]] for n, c in cards.items()]
        _print_table(["policy", "method", "env", "steps", "measured", "what it does"], rows)
        print("\ntrained with")
        _print_table(["policy", "command"], [[name, told["command"]] for name, told in cards.items()])
    if args.what == "targets":
        from vgcrl.measure import target_states

        for env, path in ((env, target_states.shipped(env)) for env in ENVS):
            if path is not None:
                found = target_states.read(path)
                _print_experts(found, f"{env}, {found.facts['steps']:,} steps of `{found.facts['command']}`")
                for facts in (found.facts, *found.facts.get("before", [])):
                    print(f"{facts['command']}: {facts.get('remark', 'as that command writes it')}")
    if args.what is None:
        print("\nmore: vgcrl list policies, vgcrl list targets")
    return 0


def _values(args: argparse.Namespace) -> dict[str, Any]:
    """Returns the options of a sweep, each with its values or a range."""
    from vgcrl.experiments.sweep import read_values
    from vgcrl.training.config import FIELDS, KNOBS

    out = {}
    for name in (name for name in (n for n in FIELDS if hasattr(args, n)) if getattr(args, name) is not None):
        kind = kind_of(FIELDS[name])
        one = PARSERS[kind.each] if name in KNOBS else parser_of(kind)
        try:
            given = getattr(args, name)
            out[name] = [tuple(given)] if name == "env_arg" else read_values(name, given, one)
        except argparse.ArgumentTypeError as error:
            raise UsageError(f"argument {flag(name)}: {error}") from None
    return out


def _sweep(args: argparse.Namespace) -> int:
    need_report("sweep")
    from vgcrl.experiments.sweep import Ask, plan, sweep

    one_of("--search", args.search, SEARCHES)
    _check_minutes(args.minutes)
    if args.search != "random" and args.trials is None:
        raise UsageError(f"--search {args.search} is of trials; valid: --trials N with it")
    ask = Ask(
        _values(args), args.optimise, args.program, args.minutes, args.trials, args.search, modules=tuple(args.modules)
    )
    if args.trials is not None:
        args.ray = args.ray or "local"  # a search is Ray's
        plan(ask)  # which checks it, before Ray starts
    with _executor(args) as execute:
        if args.dry_run:
            _print_table(*plan(ask))
            return 0
        ending = sweep(ask, args.out / ask.name(), say, execute)
    if ending.report:
        print(f"report: {ending.report}")
    return 130 if ending.stopped else 0


def _check_minutes(minutes: float | None) -> None:
    if minutes is not None and not 0 < minutes <= 1e6:
        raise UsageError(f"--minutes {minutes:g} is out of range; valid: a positive number up to a million")


def _reproduce(args: argparse.Namespace) -> int:
    need_report("reproduce")
    from vgcrl.experiments import EXPERIMENTS, Request, reproduce

    one_of("experiment", args.name, [*EXPERIMENTS, "all"])
    _check_minutes(args.minutes)
    ask = Request(**{name: getattr(args, name) for name in Request._fields})
    with _executor(args) as execute:
        for name in EXPERIMENTS if args.name == "all" else [args.name]:
            command = shlex.join(["vgcrl", "reproduce", name, *ask._replace(minutes=None).words()])  # not how far
            ending = reproduce(name, args.out, ask, command, print if ask.dry_run else say, execute)
            if ending.report:
                print(f"report: {ending.report}")
            if ending.stopped:
                return 130
    return 0


def _bench(args: argparse.Namespace) -> int:
    if not 0 < args.seconds <= 3600:
        raise UsageError(f"--seconds {args.seconds:g} is out of range; valid: a positive number up to 3600")
    if args.plot:
        need_report("bench --plot")
        there = next(folder for folder in args.plot.absolute().parents if folder.exists())
        if args.plot.suffix not in (".png", ".svg") or not there.is_dir() or not os.access(there, os.W_OK):
            raise UsageError(f"--plot {args.plot} cannot be drawn; valid: a .png or .svg where it can be written")
    from vgcrl.bench.speeds import bench

    with _nothing_on_stdout():
        timed = bench(
            args.peer, args.env, args.engine, args.runs, args.goal_dim, args.envs, args.updates_per_step, args.seconds
        )
    record: dict[str, Any] = {"command": shlex.join(["vgcrl", *args.words]), **timed}
    _print_speeds(record, args.json)
    if args.plot:
        from vgcrl.show.figures import speed

        args.plot.parent.mkdir(parents=True, exist_ok=True)
        speed(record).savefig(args.plot)
    return 0


def _print_speeds(record: dict[str, Any], as_json: bool) -> None:
    from vgcrl.training.logs import to_json

    if as_json:
        print(to_json(record))
        return
    rows: list[dict[str, Any]] = record["training"]
    names = [k for k in rows[0] if k != "ratio_to_peer"]
    _print_table(
        [k.replace("_", " ") for k in names],
        [[row[k] if isinstance(row[k], str) else f"{row[k]:,.4g}" for k in names] for row in rows],
    )
    _print_table(["what", "value"], [[k.replace("_", " "), _in_words(v)] for k, v in record.items() if k != "training"])


def _in_words(x: Any) -> str:
    """Returns a part of a record as text, however deeply it is nested."""
    if isinstance(x, dict):
        return ", ".join(f"{k.replace('_', ' ')} {_in_words(v)}" for k, v in x.items())
    if isinstance(x, list):
        return ", ".join(map(_in_words, x))
    return f"{x:,.4g}" if isinstance(x, float) else f"{x:,}" if type(x) is int else str(x)


COMMANDS = {
    "train": _train,
    "resume": _resume,
    "evaluate": _evaluate,
    "experts": _experts,
    "report": _report,
    "explore": _explore,
    "film": _film,
    "reproduce": _reproduce,
    "sweep": _sweep,
    "list": _list,
    "bench": _bench,
}
