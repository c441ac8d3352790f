"""Training with a folder: start a run, resume it, read it back."""

from collections.abc import Callable, Generator
from contextlib import chdir, contextmanager
from operator import itemgetter
from pathlib import Path
from typing import Any

import jax
import numpy as np

from vgcrl.envs import Broken
from vgcrl.errors import UsageError
from vgcrl.files import make_folder
from vgcrl.training import checkpoint, policy_file
from vgcrl.training.config import Config
from vgcrl.training.display import Display
from vgcrl.training.fields import flag
from vgcrl.training.host_program import compile_config
from vgcrl.training.logs import last_step, read_lines, truncate_lines
from vgcrl.training.loop import NEVER, NOBODY, Callback, Evaluated, train_loop
from vgcrl.training.memory import check_memory
from vgcrl.training.options import Options
from vgcrl.training.program import Program, RunState, diverged, policy
from vgcrl.training.resolve import resolve
from vgcrl.training.run_folder import (
    Run,
    check_free,
    checked_config,
    clear,
    command_for,
    fresh_folder,
    leads_to,
    locked,
    read_config,
    remove_leftovers,
    usual_folder,
    write_config,
    write_error,
)

LONG, LONG_ON_HOST = 10_000, 1_000  # random steps that are reported
START: dict[str, Any] = {"iteration": 0, "step": 0, "wall": 0.0}


def _check_start(program: Program, runs: RunState) -> None:
    """Raise UsageError if a first observation is not finite."""
    wrong = np.argwhere(~np.isfinite(np.asarray(runs.scene.obs)).all(axis=-1))
    for run, env in wrong[:1]:
        seed = program.config.seed + run % program.config.seeds
        where = f"in environment {env} of seed {seed} at its start"
        raise UsageError(f"{program.config.env}: observation not finite {where}")


def _note_idle(program: Program, display: Display) -> None:
    """Report it if training would end before learning begins."""
    config, size = program.config, program.steps_per_iteration
    name, least = max((("random_steps", config.random_steps), ("batch", config.batch)), key=itemgetter(1))
    last = (-(-config.steps // size) - 1) * size
    if last < least:
        display.note(f"nothing will be learned: {flag(name)} {least} comes first, of --steps {config.steps}")


def _note_collecting(config: Config, display: Display) -> None:
    """Report how many random steps come before learning, if they take a while."""
    if config.random_steps >= (LONG if config.native else LONG_ON_HOST):
        display.note(f"compiling, then collecting {config.random_steps:,} random steps before learning")


def _new_folder(config: Config, folder: Path | None) -> Path:
    try:
        folder = folder or fresh_folder(config)
        folder.mkdir(parents=True, exist_ok=True)
        return folder
    except OSError as error:
        where = f"--out {folder}" if folder else error.filename
        raise UsageError(f"{where} cannot be created: {error.strerror}; valid: a writable place") from None


@contextmanager
def _write_errors(folder: Path, config: Config, check_folder: Callable[[], None]) -> Generator[None]:
    """Turn an error in writing a file of the run into UsageError; what was saved remains."""
    place = folder.absolute()
    try:
        yield
    except OSError as error:
        if not any(Path(str(error.filename)).is_relative_to(path) for path in (place, folder)):
            raise
        check_folder()
        what = f"{error.filename}: {error.strerror}; the run stopped, and what was saved remains"
        resume = command_for("resume", folder, config)
        raise UsageError(f"{what}; valid: `{resume}`, where it can be written") from error


@contextmanager
def _failures(folder: Path) -> Generator[None]:
    """Turn the failure of an environment into UsageError; what was saved remains, and its traceback.

    If nothing was saved, the folder is cleared of all but the traceback.
    """
    place = folder.absolute()
    try:
        yield
    except Broken as error:
        folder = folder if leads_to(place, folder) else place
        where = write_error(folder, error)
        if checkpoint.saved(folder):
            raise UsageError(f"{error}; the run stopped and its last checkpoint remains{where}") from error
        clear(folder)
        raise UsageError(f"{error}; nothing was saved{where}") from error


def start(
    given: Options,
    folder: Path | None,
    *,
    quiet: bool = False,
    evaluated: Evaluated = NOBODY,
    callback: Callback = NEVER,
) -> Run:
    """Train a new run, by default in a new folder. Everything is checked before anything is written."""
    config = resolve(given)
    if folder is not None:
        check_free(folder)
    with chdir("."):  # an environment may change it when it starts
        program = compile_config(config)
        check_memory(config, program.spec)
        runs = jax.block_until_ready(program.init())
    _check_start(program, runs)
    asked, folder = folder, _new_folder(config, folder)
    with locked(folder) as check_folder, Display(config.method, config.steps, quiet, len(config.settings)) as display:
        check_free(folder)  # another run may have been faster
        remove_leftovers(folder)
        write_config(folder, config)
        if given.get("engine", "auto") == "auto" and not (config.native or quiet):
            display.note(f"{config.env}: engine {config.engine}")
        if program.spec.remark and not quiet:
            display.note(f"{config.env}: {program.spec.remark}")
        _note_idle(program, display)
        if not quiet:
            _note_collecting(config, display)
        if not (asked or quiet or folder == usual_folder(config)):
            display.note(f"{usual_folder(config)} is taken: this run is {folder}")
        with _write_errors(folder, config, check_folder), _failures(folder):
            return train_loop(program, folder, runs, START, display, evaluated, check_folder, callback)


def _on_host(config: Config) -> int:
    """Returns the number of environments that a checkpoint contains beside the state."""
    return 0 if config.native else config.envs * config.runs


def _note_lost(folder: Path, config: Config, runs: RunState, warn: Callable[[str], None]) -> None:
    """Report the runs that had diverged when they were saved; the others can be used."""
    for r in np.flatnonzero(diverged(runs)):
        warn(f"{folder}: {config.named_run(int(r))} has diverged: its weights are no finite numbers")


def restore(folder: Path, warn: Callable[[str], None]) -> tuple[Program, RunState, dict[str, Any]]:
    """Returns program, runs and counters of a saved run, for use without training. Diverged runs are reported."""
    program, runs, counters = _restore(folder, warn)
    _note_lost(folder, program.config, runs, warn)
    return program, runs, counters


def _restore(folder: Path, warn: Callable[[str], None]) -> tuple[Program, RunState, dict[str, Any]]:
    """Returns program, runs and counters from the policy file, if it is as new as the checkpoints, else from those.

    If another engine than the training's measures the run, it is always read from its policy file, as of the last
    evaluation.
    """
    config = checked_config(folder, examine=True)
    program, trained, step = compile_config(config), read_config(folder), 0
    text, saved, elsewhere = trained.to_json(), checkpoint.saved(folder), config.engine != trained.engine

    def by_policy() -> tuple[Program, RunState, dict[str, Any]]:
        return program, *policy_file.read(folder, policy(config, program.shapes()), text, warn)

    try:
        step = policy_file.step_of(folder)
        if elsewhere or (policy_file.exists(folder) and (not saved or step >= int(saved[0].name))):
            return by_policy()
    except policy_file.DamagedPolicy as error:
        if elsewhere or not saved:
            raise
        warn(str(error))
    try:
        runs, counters, _ = checkpoint.newest(folder, program.shapes(), text, warn, _on_host(config), least=step)
    except checkpoint.NoneSound:
        if not step:
            raise
        return by_policy()
    return program, runs, counters


def _go_on(
    folder: Path, program: Program, written: str, steps: int | None, display: Display
) -> tuple[RunState, dict[str, Any]]:
    """Returns state and counters to resume from: the newest sound checkpoint, or the start if nothing was saved.

    `written` is the text of config.json, before `steps` were asked for.
    """
    config = program.config
    if not checkpoint.saved(folder):
        file, step = "policy", policy_file.step_of(folder)
        if not policy_file.exists(folder):  # every run has one, so it was removed if anything was measured
            lines = read_lines(folder / "metrics.jsonl", config.runs)
            file, step = "metrics.jsonl", lines[-1]["step"] if lines else 0
        if not step:  # killed before the first checkpoint: nothing is lost by starting over
            return program.init(), START
        what = f"its {file} of step {step} is here, but no checkpoint to go on from"
        raise UsageError(f"{folder}: {what}; valid: `vgcrl evaluate`, or `vgcrl train` to begin anew")
    runs, counters, saved = checkpoint.newest(folder, program.shapes(), written, display.note, _on_host(config))
    size, done = program.steps_per_iteration, counters["step"]
    if steps is not None and -(-steps // size) * size < done:
        raise UsageError(f"--steps {steps} is less than the {done} already done; valid: more than that")
    if not config.simulator.exact and done < config.steps:
        display.note(f"engine {config.engine} does not repeat itself to the last bit: going on, but not exactly")
    runs, exact = program.enter(runs, saved)
    if not exact and done < config.steps:
        display.note(f"{config.env} cannot be restored in mid-episode: going on with fresh episodes")
    return runs, counters


def _note_gap(program: Program, folder: Path, step: int, display: Display) -> None:
    """Report evaluations missing before the checkpoint: lines were lost, or evaluations are more frequent now."""
    last, often = last_step(folder / "metrics.jsonl"), -(-program.config.evaluate_every // program.steps_per_iteration)
    if step and (last < 0 or last + often * program.steps_per_iteration <= step):
        why = "lines were lost, or evaluations are more frequent now"
        display.note(f"{folder / 'metrics.jsonl'} has no evaluation from step {last + 1} to {step}: {why}")


def resume(
    folder: Path,
    steps: int | None = None,
    *,
    quiet: bool = False,
    evaluated: Evaluated = NOBODY,
    callback: Callback = NEVER,
    reached: Callback = NEVER,
) -> Run:
    """Go on with a run to the steps first asked for, or to `steps` in all.

    `reached` is called with its last evaluation; if it returns True nothing is trained.
    """
    config = checked_config(folder)
    written = config.to_json()
    if steps is not None:
        config = resolve(Options.of(config) | {"steps": steps})
    with (
        locked(folder) as check_folder,
        Display(config.method, config.steps, quiet, len(config.settings)) as display,
        _write_errors(folder, config, check_folder),
    ):
        with chdir("."):
            program = compile_config(config)
            check_memory(config, program.spec)
            runs, counters = _go_on(folder, program, written, steps, display)
        truncate_lines(folder / "metrics.jsonl", counters["step"], config.runs)
        _note_gap(program, folder, counters["step"], display)
        make_folder(folder / "events")
        write_config(folder, config)  # when nothing can be refused any more
        lines = read_lines(folder / "metrics.jsonl", config.runs)
        if counters["step"] >= config.steps:
            display.note(f"{folder} has the {counters['step']:,} steps that were asked for; --steps N trains on")
        elif lines and reached(lines[-1]):
            display.note(f"the bound to stop at was reached at step {lines[-1]['step']:,}: nothing is trained")
            return Run(folder, config, lines[-1], interrupted=True)
        with _failures(folder):
            return train_loop(program, folder, runs, counters, display, evaluated, check_folder, callback)
