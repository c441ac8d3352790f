"""The training loop: advance, evaluate, checkpoint; stop on request."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np

from vgcrl.errors import UsageError
from vgcrl.measure import target_states
from vgcrl.training import checkpoint, policy_file
from vgcrl.training.config import Config
from vgcrl.training.display import Display
from vgcrl.training.fields import spoken
from vgcrl.training.logs import append_line, read_lines
from vgcrl.training.program import Program, RunState, policy
from vgcrl.training.run_folder import Run, command_for, leads_to
from vgcrl.training.run_logs import RunLogs
from vgcrl.training.signals import stop_requests
from vgcrl.training.summary import hardware, summarise, versions

CHUNK_SECONDS = 0.5  # time between two looks at Ctrl-C and two updates of the progress bar
Callback = Callable[[dict[str, Any]], Any]  # (record of an evaluation) -> True to stop training
NEVER: Callback = lambda record: False  # noqa: E731
Evaluated = Callable[[RunState, int], None]  # called with the runs and their steps at every evaluation
NOBODY: Evaluated = lambda runs, step: None  # noqa: E731


def check_finite(program: Program, runs: RunState) -> None:
    """Raise UsageError if an observation of a run was not finite."""
    faults = np.asarray(runs.fault)
    for r, (step, env) in enumerate(faults):
        if step >= 0:
            seed = program.config.seed + r % program.config.seeds
            raise UsageError(
                f"{program.config.env}: observation not finite in environment {env} of seed {seed} "
                f"at step {step + program.config.envs}; the run stopped and its last checkpoint remains"
            )


def _check_diverged(config: Config, line: dict[str, Any], reported: set[int], say: Callable[[str], None]) -> None:
    """Report once each run whose numbers are no longer finite; raise UsageError if that holds for all runs."""
    lost = {r for r, row in enumerate(line["seeds"]) if np.isnan([*row["train"].values()]).any()}
    if len(lost) == len(line["seeds"]):
        raise UsageError(
            f"every run has diverged at step {line['step']}; valid: a smaller --learning-rate than "
            f"{spoken(config.learning_rate)}; the run stopped and its last checkpoint remains"
        )
    for r in sorted(lost - reported):
        say(f"{config.named_run(r)}: diverged at step {line['step']}, its numbers are lost; the other runs go on")
    reported |= lost


def _note_overflow(program: Program, runs: RunState, before: int, say: Callable[[str], None]) -> int:
    """Report steps since `before` in which the simulator left out contacts; returns how many there are in all."""
    lost = program.overflows(runs)
    if lost > before:
        what = f"{lost - before:,} environment steps"
        say(f"engine {program.config.engine} had no room for all contacts in {what}: some were left out")
    return lost


def _evaluation(program: Program, runs: RunState, aims: Any, step: int, wall: float) -> dict[str, Any]:
    """Returns the record of an evaluation, a line of metrics.jsonl."""
    measured = summarise(program, jax.device_get(program.evaluate(runs, aims)))
    return {"step": step, "wall": wall, "hardware": hardware(), "versions": versions(), **measured}


def says_stop(answer: Any) -> bool:
    """Returns whether a callback returned True, also NumPy's; after any other value training goes on."""
    return isinstance(answer, (bool, np.bool_)) and bool(answer)


def train_loop(
    program: Program,
    folder: Path,
    runs: RunState,
    counters: dict[str, Any],
    display: Display,
    evaluated: Evaluated,
    check_folder: Callable[[], None],
    callback: Callback = NEVER,
) -> Run:
    """Train `runs` to the end, or until a signal or `callback` asks to stop, and save them.

    `evaluated` and `callback` are called at every evaluation; `check_folder` raises if the folder was removed or
    replaced.
    """
    place = folder.absolute()  # an environment or a callback may change the current folder
    config, size, written = program.config, program.steps_per_iteration, program.config.to_json()
    total = -(-config.steps // size)
    often = (config.evaluate_every, config.checkpoint_every, config.log_every)
    evaluate_every, checkpoint_every, log_every = (-(-(n or config.evaluate_every) // size) for n in often)
    i, wall, chunk = counters["iteration"], counters["wall"], 1
    last = (read_lines(place / "metrics.jsonl") or [{"step": -1}])[-1]
    aims = target_states.for_spec(config.env, program.spec, config.evaluate_episodes)
    kept = i * size if i else last["step"]  # of what was logged before; at step 0 there may be an evaluation or none
    logs, clock = RunLogs(place / "events", config, kept + 1), time.monotonic() - wall
    reported, overflows = set[int](), program.overflows(runs)

    def due() -> bool:
        """Returns whether to save a checkpoint: if `checkpoint_every` is not given, only so often that saving takes at
        most a twentieth of the time."""
        took, since = saved
        return config.checkpoint_every is not None or time.monotonic() - since > 20 * took

    def counted() -> dict[str, Any]:
        return {"iteration": i, "wall": time.monotonic() - clock}

    def save() -> None:
        nonlocal saved
        started = time.monotonic()
        with stopping.saving:
            check_folder()
            checkpoint.save(place, i * size, runs, counted(), program.save_envs(), config=written)
            check_folder()
        saved = time.monotonic() - started, time.monotonic()

    enough, saved = False, (0.0, 0.0)  # whether a callback said stop; seconds the last checkpoint took, and its end
    with stop_requests(command_for("resume", folder, config)) as stopping:
        while True:
            if (i % evaluate_every == 0 or i >= total) and last["step"] < i * size:
                last = _evaluation(program, runs, aims, i * size, time.monotonic() - clock)
                check_folder()
                policy_file.save(place, i * size, policy(config, runs), counted(), config=written)
                append_line(place / "metrics.jsonl", last)
                logs.evaluation(last)
                display.evaluated(i * size, last["mean"])
                _check_diverged(config, last, reported, display.note)
                overflows = _note_overflow(program, runs, overflows, display.note)
                evaluated(runs, i * size)
                enough = says_stop(callback(last))
            ends_here = i >= total or enough or stopping()
            if ends_here or (i % checkpoint_every == 0 and due()):
                save()
            if ends_here:
                break
            ends = (i // e * e + e for e in (evaluate_every, checkpoint_every, log_every))
            count = min(chunk, total - i, *(end - i for end in ends))
            started = time.monotonic()
            runs = jax.block_until_ready(program.advance(runs, i, count))
            check_finite(program, runs)
            i += count
            if i % log_every == 0:
                logs.training(i * size, runs.info)
            seconds = time.monotonic() - started
            display.advance(i * size, count * size / seconds, collecting=i * size < config.random_steps)
            chunk = max(1, min(2 * chunk, int(chunk * CHUNK_SECONDS / seconds) if count == chunk else chunk))
    logs.close()
    return Run(folder if leads_to(place, folder) else place, config, last, interrupted=i < total)
