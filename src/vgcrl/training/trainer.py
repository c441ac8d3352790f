"""Training with a folder: start a run, resume it, read it back."""

from collections.abc import Callable
from operator import itemgetter
from pathlib import Path
from typing import Any

import jax
import numpy as np

from vgcrl.envs import Broken
from vgcrl.errors import UsageError
from vgcrl.training import checkpoint
from vgcrl.training.fields import flag
from vgcrl.training.host_program import compile_config
from vgcrl.training.logs import Display, truncate_lines
from vgcrl.training.loop import NOBODY, Evaluated, train_loop
from vgcrl.training.options import Options
from vgcrl.training.program import Program, RunState, policy
from vgcrl.training.resolve import resolve
from vgcrl.training.run_folder import Run, check_free, checked_config, clear, fresh_folder, locked, write_config

START: dict[str, Any] = {"iteration": 0, "step": 0, "wall": 0.0}


def _check_start(program: Program, runs: RunState) -> None:
    wrong = np.argwhere(~np.isfinite(np.asarray(runs.scene.obs)).all(axis=-1))
    for run, env in wrong[:1]:
        seed = program.config.seed + run % program.config.seeds
        where = f"in environment {env} of seed {seed} at its start"
        raise UsageError(f"{program.config.env}: observation not finite {where}")


def _note_idle(program: Program, display: Display) -> None:
    """Where training would end before it begins to learn."""
    config, size = program.config, program.steps_per_iteration
    name, least = max((("random_steps", config.random_steps), ("batch", config.batch)), key=itemgetter(1))
    last = (-(-config.steps // size) - 1) * size
    if last < least:
        display.note(f"nothing will be learned: {flag(name)} {least} comes first, of --steps {config.steps}")


def start(given: Options, folder: Path | None, *, quiet: bool = False, evaluated: Evaluated = NOBODY) -> Run:
    """Train a new run, in a fresh folder unless told. Everything is checked before anything is written."""
    config = resolve(given)
    if folder is not None:
        check_free(folder)
    program = compile_config(config)
    runs = jax.block_until_ready(program.init())
    _check_start(program, runs)
    try:
        found = folder is not None and folder.exists()
        folder = folder or fresh_folder(config)
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        where = f"--out {folder}" if folder else error.filename
        raise UsageError(f"{where} cannot be created: {error.strerror}; valid: a writable place") from None
    with locked(folder), Display(config.method, config.steps, quiet) as display:
        check_free(folder)  # another run may have been faster
        write_config(folder, config)
        if given.get("engine", "auto") == "auto" and not (config.native or quiet):
            display.note(f"{config.env}: engine {config.engine}")
        _note_idle(program, display)
        try:
            return train_loop(program, folder, runs, START, display, evaluated)
        except Broken:
            if not checkpoint.saved(folder):
                clear(folder, found)  # the command may be tried again
            raise


def restore(folder: Path, warn: Callable[[str], None]) -> tuple[Program, RunState, dict[str, Any]]:
    """A run as its newest sound checkpoint has it; as much of it as its policy is, where that is newer."""
    program, step = compile_config(checked_config(folder)), 0
    try:
        step = checkpoint.policy_step(folder)
    except UsageError as error:
        if not checkpoint.saved(folder):
            raise
        warn(str(error))
    try:
        runs, counters, _ = checkpoint.newest(folder, program.shapes(), warn, least=step)
    except checkpoint.NoneSound:
        if not step:
            raise
        return program, *checkpoint.read_policy(folder, policy(program.config, program.shapes()))
    return program, runs, counters


def resume(folder: Path, steps: int | None = None, *, quiet: bool = False, evaluated: Evaluated = NOBODY) -> Run:
    """Go on to the steps first asked for, or to `steps` in all."""
    config = checked_config(folder)
    if steps is not None:
        config = resolve(Options.of(config) | {"steps": steps})
    with locked(folder), Display(config.method, config.steps, quiet) as display:
        program = compile_config(config)
        if checkpoint.saved(folder):
            runs, counters, saved = checkpoint.newest(folder, program.shapes(), display.note)
            size, done = program.steps_per_iteration, counters["step"]
            if steps is not None and -(-steps // size) * size < done:
                raise UsageError(f"--steps {steps} is less than the {done} already done; valid: more than that")
            runs, exact = program.enter(runs, saved)
            if not exact and counters["step"] < config.steps:
                display.note(f"{config.env} cannot be restored in mid-episode: going on with fresh episodes")
        elif step := checkpoint.policy_step(folder):
            what = f"its policy of step {step} is here, but no checkpoint to go on from"
            raise UsageError(f"{folder}: {what}; valid: `vgcrl evaluate`, or `vgcrl train` to begin anew")
        else:  # killed before the first checkpoint: nothing is lost by starting over
            runs, counters = program.init(), START
        write_config(folder, config)
        truncate_lines(folder / "metrics.jsonl", counters["step"])
        return train_loop(program, folder, runs, counters, display, evaluated)
