"""`vgcrl train`, from its options to the report at the end."""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vgcrl.cli.config_options import Usual, add_config_options, add_plain_options, options_of
from vgcrl.cli.output import say
from vgcrl.cli.plain_help import PLAIN
from vgcrl.cli.values import PATH
from vgcrl.errors import install, missing_for_reports, need_report

if TYPE_CHECKING:  # what takes JAX is imported where it is used, so that --help answers at once
    from vgcrl.training.config import Config

EXAMPLES = """examples:
  vgcrl train                                                     ten skills of a point mass, by DIAYN
  vgcrl train gcrl --env pointmass --dims 3 --seeds 8             reach places in three dimensions
  vgcrl train diayn --goal-dim 20 --spectral-norm 0,2,5           three settings in one program
  vgcrl train metra --env Ant --engine warp --envs 512            skills that travel, on a GPU
  vgcrl train vgcrl --env my_module:MyEnv-v0                      an environment of your own
  vgcrl train metra --env Ant --help                              the defaults of METRA on Ant"""
REACHED = {"F": "F", "LGR(z)": "lgr_z", "LGR(s)": "lgr_s", "LGR_v": "lgr_v", "env success": "env_success"}


def add_watching_options(group: argparse._ActionsContainer) -> None:
    """Adds the options on evaluations, and on the end of training."""
    stop = "stop and save when the mean of a metric over seeds reaches a bound, e.g. 'lgr_z>=0.95' or 'lgr_s<=0.1'"
    group.add_argument("--stop-when", metavar="METRIC>=X", help=stop)
    group.add_argument("--wandb", metavar="PROJECT", help="also log evaluations to Weights & Biases")
    group.add_argument("--film", action="store_true", help="write film.gif at the end, also to TensorBoard's images")


def add_options(parser: argparse.ArgumentParser, usual: Usual) -> None:
    parser.usage, parser.epilog = "vgcrl train [METHOD] [--env ENV] [options]", EXAMPLES
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    if usual:
        parser.description = (
            f"{parser.description}\nin brackets: the values for {usual['method']} on {usual['env']}\n"
            "knob: may have several values, A,B,…, which are trained side by side with every seed"
        )
    if usual is PLAIN:
        add_plain_options(parser)
    elif usual is not None:
        add_config_options(parser, usual)
    output = parser.add_argument_group("output")
    output.add_argument("--out", type=PATH, metavar="DIR", help="run folder [runs/METHOD-ENV]")
    add_watching_options(output)


def run(args: argparse.Namespace) -> int:
    from vgcrl.training.resolve import resolve
    from vgcrl.training.trainer import start
    from vgcrl.use.callbacks import watching

    options = options_of(args)
    if args.film:
        prepare_film(args.env, lambda: resolve(options))
    with watching(lambda: resolve(options), stop=args.stop_when, wandb=args.wandb) as watch:
        trained = start(options, args.out, callback=watch)
    return finish(trained, watch.stopped, args.film)


def prepare_film(env: str | None, config: Callable[[], "Config"]) -> None:
    """Chooses a renderer before training, and raises UsageError where a film is known to be impossible."""
    need_report("--film")
    from vgcrl.show.film import check_filmable, find_renderer

    find_renderer(env or "")
    check_filmable(config())


def finish(run: Any, enough: bool, film: bool) -> int:
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
