"""The words of the command line: every command, its options and their help."""

import argparse
import re
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import vgcrl
from vgcrl.cli.plain_help import PLAIN, read_plain_help
from vgcrl.errors import UsageError
from vgcrl.files import as_path
from vgcrl.training.fields import EPISODES, LARGEST, HelpLine, Kind, flag, kind_of

SEARCHES = ("random", "asha", "optuna")


LISTED = ("methods", "envs", "experiments", "targets", "policies")


class Parser(argparse.ArgumentParser):
    def __init__(self, **options: Any):
        super().__init__(**options)
        self._negative_number_matcher = re.compile(r"^-(\d|\.\d|inf|nan)")  # also -1e-3, which is no option

    def _print_message(self, message: str, file: Any = None) -> None:
        """Prints help and version; argparse would hide an error in writing them."""
        print(message, end="", file=file)

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


PARSERS: dict[type, Callable[[str], Any]] = {
    int: _number(int, "an integer"),
    float: _number(float, "a number"),
    str: str,
    bool: _number(_yes_no, "yes or no"),
}


_PATH = _number(partial(as_path, "path"), "a path")


def parser_of(kind: Kind) -> Callable[[str], Any]:
    if not kind.several:
        return PARSERS[kind.each]
    return _number(_several(kind.each), f"{'integers' if kind.each is int else 'numbers'} separated by commas")


def _add_options(
    parser: argparse.ArgumentParser, usual: Mapping[str, Any], fixed: tuple[str, ...] = (), raw: bool = False
) -> None:
    """Adds every option that is not fixed, in groups; `usual` are the defaults to show. With `raw` values stay text."""
    from vgcrl.training.config import FIELDS
    from vgcrl.training.option_groups import help_lines

    for title, lines in help_lines(usual).items():
        group = parser.add_argument_group(title)
        for line in (line for line in lines if line.name not in fixed):
            kind = kind_of(FIELDS[line.name])
            if kind.several and kind.each is str and line.name != "method":  # may hold commas
                group.add_argument(flag(line.name), action="append", metavar=line.metavar, help=line.help)
            else:
                _add_line(group, line, str if raw else parser_of(kind))


def _add_line(group: argparse._ArgumentGroup, line: HelpLine, kind: Callable[[str], Any] = str) -> None:
    if line.name == "method":
        group.add_argument("method", nargs="?", metavar="METHOD", help=line.help)
    else:
        group.add_argument(flag(line.name), type=kind, metavar=line.metavar, help=line.help)


def _add_plain_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options that a plain `vgcrl train --help` shows, without JAX, whose import takes seconds."""
    for title, lines in read_plain_help().items():
        group = parser.add_argument_group(title)
        for line in lines:
            _add_line(group, line)


def _whole(text: str, most: int = LARGEST) -> int:
    """Returns an integer from 1 to `most`; raises ValueError for any other text."""
    value = int(text)
    if not 1 <= value <= most:
        raise ValueError
    return value


def _add_ray(parser: argparse.ArgumentParser) -> None:
    ray = parser.add_argument_group("on many machines, or many GPUs of one")
    ray.add_argument("--ray", metavar="local|ADDRESS", help="run programs in parallel, here or on a Ray cluster")
    ray.add_argument("--gpus", type=PARSERS[float], metavar="N", help="GPUs per program, e.g. 0.5 [1 if there are any]")
    ray.add_argument("--cpus", type=PARSERS[float], metavar="N", help="cores reserved per program [1]")
    ray.add_argument("--storage", metavar="URL", help="where nodes without a shared folder keep runs, e.g. s3://…")


def _add_watching(group: argparse._ActionsContainer) -> None:
    """Adds the options on evaluations, and on the end of training."""
    stop = "stop and save when the mean of a metric over seeds reaches a bound, e.g. 'lgr_z>=0.95' or 'lgr_s<=0.1'"
    group.add_argument("--stop-when", metavar="METRIC>=X", help=stop)
    group.add_argument("--wandb", metavar="PROJECT", help="also log evaluations to Weights & Biases")
    group.add_argument("--film", action="store_true", help="write film.gif at the end, also to TensorBoard's images")


_AT_LEAST_ONE = _number(_whole, f"an integer from 1 to {LARGEST}")


_EPISODES = _number(partial(_whole, most=EPISODES), f"an integer from 1 to {EPISODES}")


_WORDS, _SIZES = _several(str), _number(_several(_whole), "integers of at least 1 separated by commas")


EXAMPLES = """examples:
  vgcrl train                                                     ten skills of a point mass, by DIAYN
  vgcrl train gcrl --env pointmass --dims 3 --seeds 8             reach places in three dimensions
  vgcrl train diayn --goal-dim 20 --spectral-norm 0,2,5           three settings in one program
  vgcrl train metra --env Ant --engine warp --envs 512            skills that travel, on a GPU
  vgcrl train vgcrl --env my_module:MyEnv-v0                      an environment of your own
  vgcrl train metra --env Ant --help                              the defaults of METRA on Ant"""


def _add_import(parser: argparse.ArgumentParser) -> None:
    help = "import MODULE first, also from the current folder: it registers your methods, posteriors or environments"
    parser.add_argument("--import", dest="modules", action="append", default=[], metavar="MODULE", help=help)


class Wanted(NamedTuple):
    """Which options a command is to have: with `full` also those that need JAX; `usual` are the defaults of `train`,
    where they are known."""

    full: bool
    usual: Mapping[str, Any] | None


def _train(made: argparse.ArgumentParser, wanted: Wanted) -> None:
    made.usage, made.epilog = "vgcrl train [METHOD] [--env ENV] [options]", EXAMPLES
    made.formatter_class = argparse.RawDescriptionHelpFormatter
    if wanted.usual:
        made.description = (
            f"{made.description}\nin brackets: the values for {wanted.usual['method']} on {wanted.usual['env']}\n"
            "knob: may have several values, A,B,…, which are trained side by side with every seed"
        )
    if wanted.usual is PLAIN:
        _add_plain_options(made)
    elif wanted.full:
        _add_options(made, wanted.usual or {})
    output = made.add_argument_group("output")
    output.add_argument("--out", type=_PATH, metavar="DIR", help="run folder [runs/METHOD-ENV]")
    _add_watching(output)


def _resume(made: argparse.ArgumentParser, _: Wanted) -> None:
    made.add_argument("dir", type=_PATH, metavar="RUN", help="a run folder")
    made.add_argument("--steps", type=_AT_LEAST_ONE, metavar="N", help="steps in all, if more than first asked for")
    _add_watching(made)


def _evaluate(made: argparse.ArgumentParser, _: Wanted) -> None:
    made.add_argument("dir", metavar="RUN|POLICY", help="a run folder, or one of `vgcrl list policies`")
    made.add_argument("--episodes", type=_EPISODES, metavar="N", help="episodes per run")
    made.add_argument(
        "--targets", type=_PATH, metavar="FILE", help="target states for LGR(s): .safetensors, .npy, .json or .csv"
    )
    made.add_argument(
        "--noise", type=PARSERS[bool], default=False, metavar="yes|no", help="act with the noise of training [no]"
    )
    made.add_argument("--json", action="store_true", help="print one JSON object")


def _experts(made: argparse.ArgumentParser, wanted: Wanted) -> None:
    made.add_argument("--env", required=True, metavar="ENV", help="an environment with known velocities")
    if wanted.full:
        from vgcrl.use.experts import EXPERT, FIXED

        _add_options(made, EXPERT, (*FIXED, "env"))
    made.add_argument("--policy", metavar="RUN", help="record this run or policy of velocities; train nothing")
    turn = "with --policy: turn Ant and Humanoid towards their target, so that only the speed counts"
    made.add_argument("--turn", type=PARSERS[bool], metavar="yes|no", help=f"{turn} [no]")
    made.add_argument("--out", type=_PATH, metavar="FILE", help="[targets/ENV.safetensors]")


def _report(made: argparse.ArgumentParser, _: Wanted) -> None:
    made.add_argument("dirs", type=_PATH, nargs="+", metavar="RUN", help="a run; others are compared with the first")
    made.add_argument("--out", type=_PATH, metavar="FILE", help="[report.html in the first RUN]")


def _add_noise(made: argparse.ArgumentParser) -> None:
    usual = "[no; of a policy that is meant to, yes]"
    made.add_argument("--noise", type=PARSERS[bool], metavar="yes|no", help=f"act with the noise of training {usual}")


def _add_goals(made: argparse.ArgumentParser, which: str) -> None:
    skills, goal = _several(int), _several(float)
    only = made.add_mutually_exclusive_group()
    only.add_argument(
        "--skills",
        dest="goals",
        type=_number(skills, "integers separated by commas"),
        metavar="K1,K2",
        help=f"skills{which}",
    )
    only.add_argument(
        "--goal",
        dest="goals",
        type=_number(goal, "numbers separated by commas"),
        action="append",
        metavar="Z1,Z2",
        help="a goal, where goals are vectors; repeat for more",
    )


def _explore(made: argparse.ArgumentParser, _: Wanted) -> None:
    made.add_argument("run", metavar="RUN|POLICY", help="a run folder, or one of `vgcrl list policies`")
    made.add_argument("--out", type=_PATH, metavar="FILE", help="[explore.html in RUN; POLICY.html]")
    made.add_argument("--open", action="store_true", help="open it in the browser")
    _add_goals(made, " of recorded episodes, on a page that plays these back [8 that differ]")
    _add_noise(made)


def _film(made: argparse.ArgumentParser, _: Wanted) -> None:
    made.add_argument("run", metavar="RUN|POLICY", help="a run folder, or one of `vgcrl list policies`")
    _add_goals(made, " [some that differ]")
    made.add_argument("--tour", action="store_true", help="one robot pursues all of them, one after the other")
    made.add_argument("--together", action="store_true", help="all robots in one scene, each with its trail")
    made.add_argument(
        "--seconds",
        type=PARSERS[float],
        default=8.0,
        metavar="S",
        help="length in simulated time; without a robot at most an episode [8]",
    )
    _add_noise(made)
    made.add_argument("--tensorboard", action="store_true", help="also add the .gif to the run's events")
    made.add_argument("--seed", type=int, metavar="S", help="seed whose policy acts [the run's first]")
    made.add_argument("--setting", type=int, metavar="K", help="which of several settings, counted from 0 [0]")
    made.add_argument("--out", type=_PATH, metavar="FILE", help=".gif, .mp4 or .png [film.gif in RUN; POLICY.gif]")


def _reproduce(made: argparse.ArgumentParser, _: Wanted) -> None:
    made.add_argument("name", metavar="NAME|all")
    made.add_argument("--quick", action="store_true", help="fewer seeds and steps: minutes on two CPU cores")
    made.add_argument("--program", metavar="P", help="train this program only, without a report")
    made.add_argument("--engine", metavar="E", help="engine of training; MuJoCo evaluates what Warp trains [auto]")
    made.add_argument("--physics", metavar="exact|fast", help="physics of mjx and warp in training [exact]")
    made.add_argument("--dry-run", action="store_true", help="print what would be trained, and stop")
    grid = made.add_argument_group("for the tables of robots, discrete and continuous")
    grid.add_argument("--env", type=_WORDS, default=(), metavar="E1,E2", help="only these robots")
    grid.add_argument("--goal-dim", type=_SIZES, default=(), metavar="G1,G2", help="only these |G|")
    grid.add_argument("--steps", type=_AT_LEAST_ONE, metavar="N", help="environment steps of each run [10,000,000]")
    grid.add_argument("--seeds", type=_AT_LEAST_ONE, metavar="K", help="runs of each row [3]")
    grid.add_argument("--updates-per-step", type=PARSERS[float], metavar="U", help="updates per step [0.0625]")
    rates = "learning rate of q [3e-4; continuous and Humanoid 3e-5]"
    grid.add_argument("--posterior-learning-rate", type=PARSERS[float], metavar="R", help=rates)
    fall = "end an episode when the robot is unhealthy (Ant, Humanoid) [no; Humanoid yes]"
    grid.add_argument("--terminate", type=PARSERS[bool], metavar="yes|no", help=fall)
    grid.add_argument("--envs", type=_AT_LEAST_ONE, metavar="E", help="environments of each run [512]")
    grid.add_argument("--looks", type=_AT_LEAST_ONE, metavar="N", help="evaluations during training [4]")
    grid.add_argument("--minutes", type=PARSERS[float], metavar="M", help="stop and save after M minutes")
    grid.add_argument("--report", action="store_true", help="train nothing; write the report of what is trained")
    made.add_argument("--out", type=_PATH, default=Path("results"), metavar="DIR", help="[results]")
    _add_ray(made)


def _sweep(made: argparse.ArgumentParser, wanted: Wanted) -> None:
    if wanted.full:
        _add_options(made, {}, raw=True)
    made.add_argument("--optimise", default="F", metavar="METRIC", help="metric that orders settings [F]")
    made.add_argument("--trials", type=_AT_LEAST_ONE, metavar="N", help="try N combinations, not all")
    made.add_argument("--search", default="random", metavar="|".join(SEARCHES), help="how trials are chosen [random]")
    made.add_argument("--minutes", type=PARSERS[float], metavar="M", help="stop and save after M minutes")
    made.add_argument("--dry-run", action="store_true", help="print what would be trained, and stop")
    made.add_argument("--program", metavar="P", help="train this program only, without a report")
    made.add_argument("--out", type=_PATH, default=Path("sweeps"), metavar="DIR", help="writes DIR/METHOD-ENV [sweeps]")
    _add_ray(made)


def _list(made: argparse.ArgumentParser, _: Wanted) -> None:
    made.add_argument("what", nargs="?", metavar="|".join(LISTED))


def _bench(made: argparse.ArgumentParser, _: Wanted) -> None:
    made.add_argument("--peer", metavar="sb3|qdax", help="also time this peer, if it is installed")
    made.add_argument("--env", default="HalfCheetah", metavar="ENV", help="see `vgcrl list envs` [HalfCheetah]")
    made.add_argument(
        "--engine", type=_WORDS, default=("auto",), metavar="E1,E2", help="simulators, one after the other [auto]"
    )
    made.add_argument("--runs", type=_SIZES, default=(1,), metavar="R1,R2", help="runs trained together [1]")
    made.add_argument("--goal-dim", type=_SIZES, default=(10,), metavar="G1,G2", help="numbers of skills [10]")
    made.add_argument("--envs", type=_AT_LEAST_ONE, metavar="E", help="per run [CPU 8; GPU 256, with many runs 128]")
    made.add_argument("--updates-per-step", type=PARSERS[float], metavar="U", help="updates per step [CPU 1, GPU 0.25]")
    made.add_argument(
        "--seconds", type=PARSERS[float], default=5.0, metavar="S", help="about how long each measurement takes [5]"
    )
    made.add_argument("--plot", type=_PATH, metavar="FILE", help="also draw a figure, as .png or .svg")
    made.add_argument("--json", action="store_true", help="print one JSON object")


# What each command is for, and what adds its options.
ADDED: dict[str, tuple[str, Callable[[argparse.ArgumentParser, Wanted], None]]] = {
    "train": ("train a method; without arguments, ten skills on the 2-D point mass", _train),
    "resume": ("continue a run that stopped or was killed, from its last checkpoint", _resume),
    "evaluate": ("measure a run, in the same episodes at every call", _evaluate),
    "experts": ("make target states for LGR(s), from policies that track velocities", _experts),
    "report": ("curves, tables and pictures of runs, and how they compare, in one HTML file", _report),
    "explore": ("an interactive HTML page: choose a goal and watch; no server, no network", _explore),
    "film": ("a film of skills or goals, side by side", _film),
    "reproduce": ("repeat an experiment of the paper and compare; continues where it stopped", _reproduce),
    "sweep": ("train with several values, A,B,…, or a range, A..B, of any option; continues where it stopped", _sweep),
    "list": ("methods, environments, experiments, target states, trained policies", _list),
    "bench": ("updates/s and env steps/s on this machine", _bench),
}
IMPORTING = ("train", "resume", "evaluate", "experts", "report", "explore", "film", "sweep", "list")


def parser(asked: str | None = None, usual: Mapping[str, Any] | None = None) -> Parser:
    """Returns the parser of all commands.

    Options that need JAX are added only for the command asked for, or for all if none is; `usual` are the defaults of
    `train`.
    """
    top = Parser(prog="vgcrl", description="Train policies that reach goals and discover skills.", allow_abbrev=False)
    top.add_argument(
        "--version", action="version", version=f"vgcrl {vgcrl.__version__}", help="print the version and exit"
    )
    commands = top.add_subparsers(dest="command", metavar="COMMAND", required=True, parser_class=Parser)
    for name, (help, add) in ADDED.items():
        made = commands.add_parser(name, help=help, description=help, allow_abbrev=False)
        made.add_argument("--debug", action="store_true", help="print the whole traceback of an error too")
        add(made, Wanted(asked in (None, name), usual))
        if name in IMPORTING:
            _add_import(made)
    return top
