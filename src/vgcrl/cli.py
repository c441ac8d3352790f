"""The command line. Bad input is one line on stderr and exit code 2, before anything is written."""

import argparse
import importlib.util
import io
import os
import re
import shlex
import sys
import traceback
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, redirect_stdout, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from vgcrl.errors import Broken, UsageError, hint, install
from vgcrl.training.fields import EPISODES, LARGEST, Kind, described, flag, help_of, kind_of, one_of, spoken

if TYPE_CHECKING:  # what takes JAX is imported where it is used, so that --help answers at once
    from vgcrl.measure.target_states import Experts
    from vgcrl.training.options import Options

SEARCHES = ("random", "asha", "optuna")
LISTED = ("methods", "envs", "experiments", "targets", "policies")


class Parser(argparse.ArgumentParser):
    def __init__(self, **options: Any):
        super().__init__(**options)
        self._negative_number_matcher = re.compile(r"^-(\d|\.\d|inf|nan)")  # also -1e-3, which is no option

    def error(self, message: str) -> NoReturn:
        raise UsageError(message if "; valid: " in message else f"{message}; valid: as `{self.prog} --help` tells")


def _number(kind: Callable[[str], Any], valid: str) -> Callable[[str], Any]:
    def parse(text: str) -> Any:
        try:
            return kind(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text!r} is not valid; valid: {valid}") from None

    return parse


def _several(kind: Callable[[str], Any]) -> Callable[[str], tuple[Any, ...]]:
    return lambda text: tuple(kind(x) for x in text.split(","))


def _yes_no(text: str) -> bool:
    words = {"yes": True, "true": True, "no": False, "false": False}
    if text.lower() not in words:
        raise ValueError
    return words[text.lower()]


_PARSERS: dict[type, Callable[[str], Any]] = {
    int: _number(int, "an integer"),
    float: _number(float, "a number"),
    str: str,
    bool: _number(_yes_no, "yes or no"),
}


def _parser_of(kind: Kind) -> Callable[[str], Any]:
    if not kind.several:
        return _PARSERS[kind.each]
    return _number(_several(kind.each), f"{'integers' if kind.each is int else 'numbers'} separated by commas")


def _add_options(
    parser: argparse.ArgumentParser, usual: Mapping[str, Any], fixed: tuple[str, ...] = (), raw: bool = False
) -> None:
    """Every option that is not fixed, in groups; `usual` are the values unless told. Where `raw`, as text."""
    from vgcrl.training.config import DEFAULTS, FIELDS, KNOBS
    from vgcrl.training.option_groups import GROUPS

    defaults = DEFAULTS | dict(usual)
    for title, names in GROUPS.items():
        group = parser.add_argument_group(title)
        for name in (name for name in names if name not in fixed):
            field = FIELDS[name]
            help = help_of(field) + ("" if defaults.get(name) is None else f" [{_brief(spoken(defaults[name]))}]")
            if name in KNOBS:
                help += "; several values, separated by commas, are run side by side"
            if name == "method":
                group.add_argument("method", nargs="?", metavar="METHOD", help=help)
                continue
            metavar, kind = described(field).metavar or name.split("_")[-1].upper(), kind_of(field)
            if kind.several and kind.each is str and not raw:  # may hold commas
                group.add_argument(flag(name), action="append", metavar=metavar, help=help)
            else:
                group.add_argument(flag(name), type=str if raw else _parser_of(kind), metavar=metavar, help=help)


def _brief(text: str) -> str:
    """A long list by its first and last."""
    return text if len(text) <= 30 else f"{text[:6]}…{text[text.rindex(',') :]}" if "," in text else text


def _whole(text: str, most: int = LARGEST) -> int:
    """Already an integer; here for its range."""
    value = int(text)
    if not 1 <= value <= most:
        raise ValueError
    return value


def _add_ray(parser: argparse.ArgumentParser) -> None:
    ray = parser.add_argument_group("on many machines, or many GPUs of one")
    ray.add_argument("--ray", metavar="local|ADDRESS", help="programs side by side: on this machine, or a Ray cluster")
    ray.add_argument("--gpus", type=_PARSERS[float], metavar="N", help="of each program, e.g. 0.5 [1 if there are any]")
    ray.add_argument("--cpus", type=_PARSERS[float], metavar="N", help="cores that each program is counted for [1]")
    ray.add_argument("--storage", metavar="URL", help="where all nodes keep their programs, e.g. s3://… [--out]")


@contextmanager
def _executor(args: argparse.Namespace) -> Generator[Any]:
    """Where programs run, as asked for."""
    from vgcrl.experiments.scheduling import here

    given = [name for name in ("gpus", "cpus", "storage") if getattr(args, name) is not None]
    if args.ray is None and given:
        raise UsageError(f"{flag(given[0])} does not apply without --ray; valid: --ray local or an address with it")
    for name in (name for name in given if name != "storage"):
        if not 0 <= getattr(args, name) <= 1024:
            raise UsageError(f"{flag(name)} {getattr(args, name):g} is out of range; valid: a number from 0 to 1024")
    if args.ray is None or args.dry_run:
        yield here
        return
    from vgcrl.experiments.scheduling.cluster import OnRay, Resources, connected

    with connected(args.ray):
        yield OnRay(Resources(args.gpus, 1.0 if args.cpus is None else args.cpus, args.storage))


_AT_LEAST_ONE = _number(_whole, f"an integer from 1 to {LARGEST}")
_EPISODES = _number(partial(_whole, most=EPISODES), f"an integer from 1 to {EPISODES}")


EXAMPLES = """examples:
  vgcrl train                                                     ten skills of a point mass, by DIAYN
  vgcrl train gcrl --env pointmass --dims 3 --seeds 8             reach places in three dimensions
  vgcrl train diayn --goal-dim 20 --spectral-norm 0,2,5           three settings in one program
  vgcrl train metra --env Ant --engine warp --envs 512            skills that travel, on a GPU
  vgcrl train vgcrl --env my_module:MyEnv-v0                      an environment of your own
  vgcrl train metra --env Ant --help                              the defaults of METRA on Ant"""


def parser(asked: str | None = None, usual: Mapping[str, Any] | None = None) -> Parser:
    """Of all commands. Options that take JAX to know are added for the command asked for, or all if none is; `usual`
    are those of `train` unless told."""
    top = Parser(prog="vgcrl", description="Variational goal-conditioned RL.", allow_abbrev=False)
    commands = top.add_subparsers(dest="command", metavar="COMMAND", required=True, parser_class=Parser)

    def command(name: str, help: str) -> argparse.ArgumentParser:
        made = commands.add_parser(name, help=help, description=help, allow_abbrev=False)
        made.add_argument("--debug", action="store_true", help="print the whole traceback of an error too")
        return made

    def imports(made: argparse.ArgumentParser) -> None:
        help = "import MODULE first, also from the current folder: one that registers what is your own"
        made.add_argument("--import", dest="modules", action="append", default=[], metavar="MODULE", help=help)

    train = command("train", "train a method; without arguments, ten skills on the 2-D point mass")
    train.usage, train.epilog = "vgcrl train [METHOD] [--env ENV] [options]", EXAMPLES
    train.formatter_class = argparse.RawDescriptionHelpFormatter
    if usual:
        train.description = f"{train.description}\nin brackets: the values for {usual['method']} on {usual['env']}"
    if asked in (None, "train"):
        _add_options(train, usual or {})
    output = train.add_argument_group("output")
    output.add_argument("--out", type=Path, metavar="DIR", help="run directory [runs/METHOD-ENV]")
    resume = command("resume", "continue exactly where a run stopped or was killed")
    resume.add_argument("dir", type=Path, metavar="DIR")
    resume.add_argument("--steps", type=_AT_LEAST_ONE, metavar="N", help="steps in all, to go further than first asked")
    evaluate = command("evaluate", "measure a run on held-out episodes")
    evaluate.add_argument("dir", metavar="DIR", help="a run directory, or one of `vgcrl list policies`")
    evaluate.add_argument("--episodes", type=_EPISODES, metavar="N", help="episodes per run")
    evaluate.add_argument(
        "--targets", type=Path, metavar="FILE", help="target states for LGR(s): .safetensors, .npy, .json or .csv"
    )
    evaluate.add_argument("--json", action="store_true", help="print one JSON object")
    expert = command("experts", "target states for LGR from velocity-tracking experts")
    expert.add_argument("--env", required=True, metavar="ENV", help="an environment with known velocities")
    if asked in (None, "experts"):
        from vgcrl.use.experts import EXPERT, FIXED

        _add_options(expert, EXPERT, (*FIXED, "env"))
    expert.add_argument("--out", type=Path, metavar="FILE", help="[targets/ENV.safetensors]")
    report = command("report", "one self-contained HTML file")
    report.add_argument("dirs", type=Path, nargs="+", metavar="DIR")
    report.add_argument("--out", type=Path, metavar="FILE", help="[report.html in the first DIR]")
    explore = command("explore", "one HTML file in which one picks a goal and watches: no server, no network")
    explore.add_argument("run", metavar="RUN|POLICY", help="a run directory, or one of `vgcrl list policies`")
    explore.add_argument("--out", type=Path, metavar="FILE", help="[explore.html in RUN; POLICY.html]")
    explore.add_argument("--open", action="store_true", help="open it in the browser")
    film = command("film", "a film of some skills or goals side by side")
    film.add_argument("run", metavar="RUN|POLICY", help="a run directory, or one of `vgcrl list policies`")
    skills = _number(_several(int), "integers separated by commas")
    film.add_argument("--skills", type=skills, metavar="K1,K2", help="where goals are skills: these")
    goal = _number(_several(float), "numbers separated by commas")
    film.add_argument("--goal", type=goal, action="append", metavar="Z1,Z2", help="else: this; may be given again")
    film.add_argument("--tour", action="store_true", help="one body pursues all of them, one after the other")
    film.add_argument("--seconds", type=_PARSERS[float], default=8.0, metavar="S", help="of simulated time [8]")
    film.add_argument("--tensorboard", action="store_true", help="also into the run's events, where it is a .gif")
    film.add_argument("--seed", type=int, metavar="S", help="whose policy acts [the run's first]")
    film.add_argument("--out", type=Path, metavar="FILE", help=".gif, .mp4 or .png [film.gif in RUN; POLICY.gif]")
    reproduce = command("reproduce", "regenerate an experiment of the paper and compare; goes on where it was stopped")
    reproduce.add_argument("name", metavar="NAME|all")
    reproduce.add_argument("--quick", action="store_true", help="fewer seeds and steps: minutes on two CPU cores")
    reproduce.add_argument("--program", metavar="P", help="make this one of its programs alone, and no report")
    grid = reproduce.add_argument_group("for the tables of cells, discrete and continuous")
    words, sizes = _several(str), _number(_several(_whole), "integers of at least 1 separated by commas")
    grid.add_argument("--env", type=words, default=(), metavar="E1,E2", help="only these bodies")
    grid.add_argument("--goal-dim", type=sizes, default=(), metavar="G1,G2", help="only these |G|")
    grid.add_argument("--steps", type=_AT_LEAST_ONE, metavar="N", help="environment steps of each run [10,000,000]")
    grid.add_argument("--seeds", type=_AT_LEAST_ONE, metavar="K", help="runs of each row [3]")
    often = "[0.125; Ant and Humanoid 0.5]"
    grid.add_argument("--updates-per-step", type=_PARSERS[float], metavar="U", help=often)
    grid.add_argument("--envs", type=_AT_LEAST_ONE, metavar="E", help="environments of each run [128]")
    grid.add_argument("--engine", metavar="ENGINE", help="that trains; what Warp trained is measured by MuJoCo [auto]")
    grid.add_argument("--minutes", type=_PARSERS[float], metavar="M", help="stop and save when this time is spent")
    grid.add_argument("--dry-run", action="store_true", help="print what it would take, and stop")
    reproduce.add_argument("--out", type=Path, default=Path("results"), metavar="DIR", help="[results]")
    _add_ray(reproduce)
    sweep = command("sweep", "any option with several values, A,B,…, or a range, A..B; goes on where it was stopped")
    if asked in (None, "sweep"):
        _add_options(sweep, {}, raw=True)
    sweep.add_argument("--optimise", default="F", metavar="METRIC", help="what settings are ordered by [F]")
    sweep.add_argument("--trials", type=_AT_LEAST_ONE, metavar="N", help="try so many combinations, not all")
    sweep.add_argument("--search", default="random", metavar="|".join(SEARCHES), help="how trials are chosen [random]")
    sweep.add_argument("--minutes", type=_PARSERS[float], metavar="M", help="stop and save when this time is spent")
    sweep.add_argument("--dry-run", action="store_true", help="print its programs, and stop")
    sweep.add_argument("--program", metavar="P", help="train this one of its programs alone, and no report")
    sweep.add_argument("--out", type=Path, default=Path("sweeps"), metavar="DIR", help="[sweeps], in it METHOD-ENV")
    _add_ray(sweep)
    listing = command("list", "what there is")
    listing.add_argument("what", nargs="?", metavar="|".join(LISTED))
    bench = command("bench", "updates/s and env steps/s on this machine")
    bench.add_argument("--peer", metavar="sb3|qdax", help="also time this peer, if it is installed")
    several = _number(_several(_whole), "integers of at least 1 separated by commas")
    bench.add_argument("--env", default="HalfCheetah", metavar="ENV", help="see `vgcrl list envs` [HalfCheetah]")
    bench.add_argument(
        "--engine", type=words, default=("auto",), metavar="E1,E2", help="simulators, one after the other [auto]"
    )
    bench.add_argument("--runs", type=several, default=(1,), metavar="R1,R2", help="runs trained together [1]")
    bench.add_argument("--goal-dim", type=several, default=(10,), metavar="G1,G2", help="numbers of skills [10]")
    bench.add_argument("--envs", type=_AT_LEAST_ONE, metavar="E", help="per run [CPU 8; GPU 256, of many runs 128]")
    bench.add_argument("--updates-per-step", type=_PARSERS[float], metavar="U", help="[CPU 1, GPU 0.25]")
    bench.add_argument(
        "--seconds", type=_PARSERS[float], default=5.0, metavar="S", help="about how long each is timed [5]"
    )
    bench.add_argument("--plot", type=Path, metavar="FILE", help="also draw it, as .png or .svg")
    bench.add_argument("--json", action="store_true", help="print one JSON object")
    for made in (train, resume, evaluate, expert, report, explore, film):
        imports(made)
    return top


def _say(text: str) -> None:
    print(text, file=sys.stderr)


def _finish(run: Any) -> int:
    mean = run.last.get("mean", {})
    names = {"F": "F", "LGR(z)": "lgr_z", "LGR(s)": "lgr_s", "LGR_v": "lgr_v", "env success": "env_success"}
    shown = (f"{label} {mean[name]:.3f}" for label, name in names.items() if mean.get(name) is not None)
    _say(f"{'  '.join(shown)}  after {run.last['step']:,} steps")
    if run.interrupted:
        _say(f"stopped and saved; continue with: vgcrl resume {shlex.quote(str(run.dir))}")
        return 130
    if not _missing():
        from vgcrl.show.report import run_page, write

        page = _page_beside(run)
        print(f"report: {write([run_page(run.dir)], run.dir / 'report.html')}")
        print(f"page: {page}" if page else f"watch it: vgcrl explore {shlex.quote(str(run.dir))}")
    else:
        print(f"run: {run.dir} (for a report: {install('report')})")
    return 0


def _page_beside(run: Any) -> Path | None:
    """The page of a point mass, which is small; that of a body has MuJoCo in it, and is written when asked for, and
    what is registered elsewhere may have no page."""
    from vgcrl.show.explorer import explore
    from vgcrl.show.explorer.worlds import POINT_MASSES

    return explore(run.dir, None, _say) if run.config.env in POINT_MASSES and not run.config.plugins else None


def _options(args: argparse.Namespace) -> "Options":
    from vgcrl.training.config import FIELDS
    from vgcrl.training.options import Options

    given: dict[str, Any] = {name: getattr(args, name) for name in FIELDS if hasattr(args, name)}
    given |= {name: tuple(x) for name, x in given.items() if isinstance(x, list)}
    return Options(**given)


def _train(args: argparse.Namespace) -> int:
    from vgcrl.training.trainer import start

    return _finish(start(_options(args), args.out))


def _resume(args: argparse.Namespace) -> int:
    from vgcrl.training.trainer import resume

    return _finish(resume(args.dir, args.steps))


def _evaluate(args: argparse.Namespace) -> int:
    from vgcrl.training.logs import to_json
    from vgcrl.use.evaluate import evaluate_run
    from vgcrl.use.policies import folder_of

    with redirect_stdout(sys.stderr):  # an environment may print
        record = evaluate_run(folder_of(args.dir), args.episodes, args.targets, _say)
    if args.json:
        print(to_json(record))
        return 0
    from vgcrl.show.tables import metrics_table

    _print_table(*metrics_table(record))
    return 0


def _experts(args: argparse.Namespace) -> int:
    from vgcrl.use.experts import EXPERT, experts

    out = args.out or Path("targets") / f"{args.env}.safetensors"
    found = experts(EXPERT | _options(args), out, _say)
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
    from vgcrl.show.explorer import explore
    from vgcrl.use.policies import card, folder_of, is_shipped

    folder, out, facts = folder_of(args.run), args.out, {}
    if is_shipped(folder):
        told = card(folder.name)
        facts = {"name": folder.name, **{k: told[k] for k in ("about", "command", "measured")}}
        out = out or Path(f"{folder.name}.html")
    path = explore(folder, out, _say, **facts)
    print(f"page: {path}")
    if args.open:
        import webbrowser

        webbrowser.open(path.absolute().as_uri())
    return 0


def _film(args: argparse.Namespace) -> int:
    _need_report("film")
    if args.skills is not None and args.goal is not None:
        raise UsageError("--skills and --goal exclude each other; valid: one of them")
    from vgcrl.show.film import Request, film, to_tensorboard
    from vgcrl.use.policies import folder_of, is_shipped

    folder = folder_of(args.run)
    out = args.out or (Path(f"{folder.name}.gif") if is_shipped(folder) else folder / "film.gif")
    given = args.skills if args.goal is None else args.goal
    if args.tensorboard and (is_shipped(folder) or out.suffix != ".gif"):
        raise UsageError("--tensorboard takes a .gif of a run directory; valid: without it, or --out with .gif")
    print(f"film: {film(folder, out, Request(given, args.seconds, args.seed, args.tour), _say)}")
    if args.tensorboard:
        to_tensorboard(folder, out)
    return 0


def _report(args: argparse.Namespace) -> int:
    _need_report("report")
    from vgcrl.experiments import read_page
    from vgcrl.show.report import run_page, write

    pages = [(read_page if (d / "result.json").exists() else run_page)(d) for d in args.dirs]
    print(write(pages, args.out or args.dirs[0] / "report.html", follow=args.out is not None))
    return 0


def _missing() -> list[str]:
    return [name for name in ("matplotlib", "jinja2") if importlib.util.find_spec(name) is None]


def _need_report(command: str) -> None:
    missing = _missing()
    if missing:
        raise UsageError(f"{command} needs {', '.join(missing)}; valid: {install('report')}")


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
        _need_report("list experiments")
    if args.what in (None, "experiments") and not _missing():
        from vgcrl.experiments import EXPERIMENTS

        _print_table(["experiment", "claim"], [[n, e.claim] for n, e in EXPERIMENTS.items()])
    if args.what == "policies":
        from vgcrl.show.tables import reached
        from vgcrl.use import policies

        cards = {name: policies.card(name) for name in policies.names()}
        rows = [
            [n, c["method"], c["env"], f"{c['steps']:,}", reached(c["measured"]), c["about"]] for n, c in cards.items()
        ]
        _print_table(["policy", "method", "env", "steps", "measured", "what it does"], rows)
        for name, told in cards.items():
            print(f"{name}: {told['command']}")
    if args.what == "targets":
        from vgcrl.measure import target_states

        for env, path in ((env, target_states.shipped(env)) for env in ENVS):
            if path is not None:
                found = target_states.read(path)
                _print_experts(found, f"{env}, {found.facts['steps']:,} steps of `{found.facts['command']}`")
                print(found.facts.get("remark", "as that command writes it"))
    return 0


def _values(args: argparse.Namespace) -> dict[str, Any]:
    """Options of a sweep: several values of each, or a range."""
    from vgcrl.experiments.sweep import read_values
    from vgcrl.training.config import FIELDS, KNOBS

    out = {}
    for name in (name for name in FIELDS if getattr(args, name) is not None):
        kind = kind_of(FIELDS[name])
        one = _PARSERS[kind.each] if name in KNOBS else _parser_of(kind)
        try:
            out[name] = read_values(name, getattr(args, name), one)
        except argparse.ArgumentTypeError as error:
            raise UsageError(f"argument {flag(name)}: {error}") from None
    return out


def _sweep(args: argparse.Namespace) -> int:
    _need_report("sweep")
    from vgcrl.experiments.sweep import Ask, plan, sweep

    one_of("--search", args.search, SEARCHES)
    _check_minutes(args.minutes)
    ask = Ask(_values(args), args.optimise, args.program, args.minutes, args.trials, args.search)
    if args.dry_run:
        _print_table(*plan(ask))
        return 0
    if args.trials is not None and args.ray is None:
        args.ray = "local"  # a search is Ray's
    with _executor(args) as execute:
        ending = sweep(ask, args.out / ask.name(), _say, execute)
    if ending.report:
        print(f"report: {ending.report}")
    return 130 if ending.stopped else 0


def _check_minutes(minutes: float | None) -> None:
    if minutes is not None and not 0 < minutes <= 1e6:
        raise UsageError(f"--minutes {minutes:g} is out of range; valid: a positive number up to a million")


def _reproduce(args: argparse.Namespace) -> int:
    _need_report("reproduce")
    from vgcrl.experiments import EXPERIMENTS, Request, reproduce

    one_of("experiment", args.name, [*EXPERIMENTS, "all"])
    _check_minutes(args.minutes)
    ask = Request(**{name: getattr(args, name) for name in Request._fields})
    with _executor(args) as execute:
        for name in EXPERIMENTS if args.name == "all" else [args.name]:
            command = shlex.join(["vgcrl", "reproduce", name, *ask._replace(minutes=None).words()])  # not how far
            ending = reproduce(name, args.out, ask, command, print if ask.dry_run else _say, execute)
            if ending.report:
                print(f"report: {ending.report}")
            if ending.stopped:
                return 130
    return 0


def _bench(args: argparse.Namespace) -> int:
    if not 0 < args.seconds <= 3600:
        raise UsageError(f"--seconds {args.seconds:g} is out of range; valid: a positive number up to 3600")
    if args.plot:
        _need_report("bench --plot")
        if args.plot.suffix not in (".png", ".svg") or not args.plot.absolute().parent.is_dir():
            raise UsageError(f"--plot {args.plot} cannot be drawn; valid: a .png or .svg in a folder that exists")
    from vgcrl.bench.speeds import bench
    from vgcrl.training.logs import to_json

    with redirect_stdout(sys.stderr):  # a peer may print
        timed = bench(
            args.peer, args.env, args.engine, args.runs, args.goal_dim, args.envs, args.updates_per_step, args.seconds
        )
    record: dict[str, Any] = {"command": shlex.join(["vgcrl", *args.words]), **timed}
    if args.plot:
        from vgcrl.show.figures import speed

        speed(record).savefig(args.plot)
    if args.json:
        print(to_json(record))
        return 0
    rows: list[dict[str, Any]] = timed["training"]
    del record["training"]
    names = [k for k in rows[0] if k != "ratio_to_peer"]
    _print_table(
        [k.replace("_", " ") for k in names],
        [[row[k] if isinstance(row[k], str) else f"{row[k]:,.4g}" for k in names] for row in rows],
    )
    _print_table(["what", "value"], [[k, f"{v:,.2f}" if isinstance(v, float) else str(v)] for k, v in record.items()])
    return 0


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


HELP = ("-h", "--help")


def parse(arguments: list[str]) -> argparse.Namespace:
    if not arguments:
        raise UsageError(f"no COMMAND is given; valid: {', '.join(COMMANDS)}")
    if arguments[0] not in HELP:
        one_of("command", arguments[0], COMMANDS)
    for word in arguments:
        if re.fullmatch("--[a-z-]+=--", word):  # which argparse takes for the end of the options
            raise UsageError(f"{word.removesuffix('=--')} '--' is not valid; valid: a value that is not --")
    usual = _values_for([word for word in arguments if word not in HELP]) if _asks_for_help(arguments) else None
    top = parser(arguments[0], usual)
    args, unknown = top.parse_known_args(arguments)
    args.words = arguments
    if unknown:
        actions = top._subparsers._group_actions[0].choices[args.command]._actions  # ty: ignore
        options = [o for action in actions for o in action.option_strings if o.startswith("--")]
        near = hint(unknown[0].split("=")[0], options)
        raise UsageError(f"{unknown[0]} is not understood by `vgcrl {args.command}`{near}; valid: {' '.join(options)}")
    return args


def _asks_for_help(arguments: list[str]) -> bool:
    return arguments[0] == "train" and any(word in arguments for word in HELP)


def _values_for(arguments: list[str]) -> dict[str, Any]:
    """What `train` with these arguments would use."""
    from vgcrl.training.option_groups import values_for

    args = parse(arguments)
    _import_named(args)
    return values_for(_options(args))


def main(arguments: list[str] | None = None) -> int:
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without Greek letters
    words = sys.argv[1:] if arguments is None else arguments
    try:
        args = parse(words)
        _use_compilation_cache()
        if getattr(args, "ray", None):
            import jax

            jax.config.update("jax_platforms", "cpu")  # the GPUs are for the programs
        if args.command != "list":
            _check_devices()
        _import_named(args)
        code = COMMANDS[args.command](args)
        if sys.stdout:  # it may have been closed
            sys.stdout.flush()
        return code
    except (UsageError, Broken) as error:
        if "--debug" in words:
            _print_traceback(error)
        _say(f"vgcrl: {' '.join(str(error).split())}")
        return 2
    except KeyboardInterrupt:
        _say("vgcrl: interrupted")
        return 130
    except (MemoryError, RuntimeError) as error:  # JAX's is a RuntimeError
        if not isinstance(error, MemoryError) and not re.search("RESOURCE_EXHAUSTED|[Oo]ut of memory", str(error)):
            raise
        _say("vgcrl: this does not fit into memory; valid: fewer or smaller runs, networks, replay or episodes")
        return 2
    except BrokenPipeError:  # whoever read the output has gone; what is left of it goes nowhere
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        _say(f"vgcrl: {where}{error.strerror or error}; valid: files and folders that can be read and written")
        return 2


def _import_named(args: argparse.Namespace) -> None:
    """Modules that the user names on this command: by --import, and by --env where that trains something new."""
    from vgcrl.envs import modules

    modules.import_plugins()
    for module in getattr(args, "modules", []):
        modules.import_named(module, "--import")
    if args.command in ("train", "experts"):
        modules.import_named(modules.module_of(args.env or ""), f"--env {args.env}")


def _print_traceback(error: BaseException) -> None:
    """Also of what happened in a worker process."""
    cause = error if isinstance(error, Broken) else error.__cause__
    remote = cause.traceback if isinstance(cause, Broken) else ""
    _say(remote or "".join(traceback.format_exception(error)))


def _check_devices() -> None:
    """JAX may have been told of one that is not there, or was not built for it."""
    import jax

    try:
        jax.devices()
    except (RuntimeError, AssertionError) as error:  # the latter, without a word, of one that it knows but cannot use
        what = str(error).partition("\n")[0] or f"{os.environ.get('JAX_PLATFORMS')!r} cannot be used"
        raise UsageError(f"JAX has no device to compute on: {what}; valid: JAX_PLATFORMS=cpu, or unset") from None


def _use_compilation_cache() -> None:
    """Compiled programs are kept between runs, in $JAX_COMPILATION_CACHE_DIR or the user's cache folder."""
    import jax

    if not os.environ.get("JAX_COMPILATION_CACHE_DIR"):
        with suppress(RuntimeError):  # of a user without a home
            base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
            jax.config.update("jax_compilation_cache_dir", str(base / "vgcrl"))
