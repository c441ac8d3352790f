"""The one loop: advance, evaluate, checkpoint; stop on request and go on from where it stopped."""

import dataclasses
import fcntl
import platform
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from importlib.machinery import all_suffixes
from importlib.metadata import version
from operator import itemgetter
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import jax
import numpy as np

from vgcrl import checkpoint, targets
from vgcrl.config import Config, flag, resolve, spoken
from vgcrl.envs import Broken, cores
from vgcrl.errors import UsageError
from vgcrl.files import put
from vgcrl.hosted import compile_config
from vgcrl.logs import Display, Events, append_line, read_lines, truncate_lines
from vgcrl.metrics import MOVING, interval
from vgcrl.program import Program, RunState, policy

CHUNK_SECONDS = 0.5  # how long the program runs before it looks up: the latency of Ctrl-C and of the bar
START: dict[str, Any] = {"iteration": 0, "step": 0, "wall": 0.0}
Evaluated = Callable[[RunState, int], None]  # told of the runs at every evaluation, and of their steps
NOBODY: Evaluated = lambda runs, step: None  # noqa: E731
SUMMARISED = ("F", "log_q", "lgr_z", "lgr_z_steps", "lgr_s", *MOVING)


def hardware() -> str:
    count, kind = jax.device_count(), jax.devices()[0].device_kind
    several = f"{count} × " if count > 1 else ""
    return f"{several}{kind} ({platform.machine()}, {jax.default_backend()}), {cores()} cores"


def versions() -> dict[str, str]:
    return {"vgcrl": version("vgcrl"), "jax": jax.__version__, "python": platform.python_version()}


class Run(NamedTuple):
    """A trained run: its directory, and the record of its last evaluation."""

    dir: Path
    config: Config
    last: dict[str, Any]
    interrupted: bool

    @property
    def metrics(self) -> list[dict[str, Any]]:
        return read_lines(self.dir / "metrics.jsonl")


def summarise(program: Program, out: dict[str, Any]) -> dict[str, Any]:
    """Per run, and over the seeds of each setting."""
    config = program.config
    seeds = range(config.seed, config.seed + config.seeds)
    rows = []
    for r, (setting, seed) in enumerate((setting, seed) for setting in config.settings for seed in seeds):
        row = jax.tree.map(lambda x, r=r: np.asarray(x[r], np.float64).tolist(), out)
        row |= {} if program.spec.velocity else dict.fromkeys(MOVING)
        native = row["posterior"] and config.native
        facts = config.build_env(SimpleNamespace(**setting)).spec.facts if native else {}
        row["posterior"] |= facts
        if "A" in row["posterior"] and "projection" in facts:
            product = np.array(row["posterior"]["A"]) @ np.array(facts["projection"])
            row["posterior"]["singular_values"] = np.linalg.svd(product, compute_uv=False).tolist()
        rows.append({"seed": seed, **{k: setting[k] for k in config.swept}, **row})

    def over(rows: list[dict[str, Any]]) -> dict[str, Any]:
        columns = {k: [row[k] for row in rows] for k in SUMMARISED}
        known = {k: None not in v for k, v in columns.items()}
        return {
            "mean": {k: float(np.mean(v)) if known[k] else None for k, v in columns.items()},
            "ci95": {k: interval(v) if known[k] else None for k, v in columns.items()},
        }

    record = {"seeds": rows, **over(rows)}
    if config.swept:
        record["ci95"] = dict.fromkeys(SUMMARISED)  # runs of different settings are no sample
        groups = [rows[i : i + config.seeds] for i in range(0, len(rows), config.seeds)]
        record["settings"] = [{**{k: g[0][k] for k in config.swept}, **over(g)} for g in groups]
    return record


@contextmanager
def _locked(folder: Path) -> Generator[None]:
    """One process at a time may write a run."""
    with (folder / ".lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise UsageError(
                f"{folder}: another process is training this run; valid: wait for it, or stop it"
            ) from None
        yield


@contextmanager
def _stop_requests() -> Generator[Callable[[], bool]]:
    """Ctrl-C and SIGTERM ask for a stop at the end of the chunk; a second Ctrl-C is not held back."""
    asked: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return

    def handle(number: int, _: Any) -> None:
        if asked:
            raise KeyboardInterrupt
        asked.append(number)

    before = {s: signal.signal(s, handle) for s in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: bool(asked)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _check_finite(program: Program, runs: RunState) -> None:
    faults = np.asarray(runs.fault)
    for r, (step, env) in enumerate(faults):
        if step >= 0:
            seed = program.config.seed + r % program.config.seeds
            raise UsageError(
                f"{program.config.env}: observation not finite in environment {env} of seed {seed} "
                f"at step {step + program.config.envs}; the run stopped and its last checkpoint remains"
            )


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


def _check_diverged(config: Config, line: dict[str, Any], told: set[int], say: Callable[[str], None]) -> None:
    """A run whose numbers are lost is told once, and the others go on; where all are, training stops."""
    lost = {r for r, row in enumerate(line["seeds"]) if np.isnan([*row["train"].values()]).any()}
    if len(lost) == len(line["seeds"]):
        raise UsageError(
            f"every run has diverged at step {line['step']}; valid: a smaller --learning-rate than "
            f"{spoken(config.learning_rate)}; the run stopped and its last checkpoint remains"
        )
    for row in (line["seeds"][r] for r in sorted(lost - told)):
        which = ", ".join([f"seed {row['seed']}", *(f"{flag(k)} {row[k]:g}" for k in config.swept)])
        say(f"{which}: diverged at step {line['step']}, its numbers are lost; the other runs go on")
    told |= lost


def _loop(
    program: Program, folder: Path, runs: RunState, counters: dict[str, Any], display: Display, evaluated: Evaluated
) -> Run:
    config, size = program.config, program.steps_per_iteration
    total = -(-config.steps // size)
    evaluate_every = -(-config.evaluate_every // size)
    checkpoint_every = -(-(config.checkpoint_every or config.evaluate_every) // size)
    i, wall, chunk, speed = counters["iteration"], counters["wall"], 1, 0.0
    lines = read_lines(folder / "metrics.jsonl")
    last = lines[-1] if lines else {"step": -1}
    aims = targets.default(config.env, program.spec.obs_dim, config.evaluate_episodes)
    events, clock = Events(folder / "events"), time.monotonic() - wall
    told: set[int] = set()

    def due() -> bool:
        """As asked for; unless told, as often as saving takes no more than a twentieth of the time."""
        took, since = saved
        return config.checkpoint_every is not None or time.monotonic() - since > 20 * took

    def counted() -> dict[str, Any]:
        return {"iteration": i, "wall": time.monotonic() - clock}

    def save() -> None:
        nonlocal saved
        begun = time.monotonic()
        checkpoint.save(folder, i * size, runs, counted(), program.save_worlds())
        saved = time.monotonic() - begun, time.monotonic()

    saved = 0.0, 0.0  # seconds the last checkpoint took, and when it was done
    with _stop_requests() as stopping:
        while True:
            if (i % evaluate_every == 0 or i >= total) and last["step"] < i * size:
                out = jax.device_get(program.evaluate(runs, aims))
                last: dict[str, Any] = {"step": i * size, "wall": time.monotonic() - clock}
                last |= {"hardware": hardware(), "versions": versions(), **summarise(program, out)}
                checkpoint.save_policy(folder, i * size, policy(config, runs), counted())
                append_line(folder / "metrics.jsonl", last)
                events.scalars(i * size, {k: v for k, v in last["mean"].items() if v is not None and np.isfinite(v)})
                display.evaluated(i * size, last["mean"])
                _check_diverged(config, last, told, display.note)
                evaluated(runs, i * size)
            ends_here = i >= total or stopping()
            if ends_here or (i % checkpoint_every == 0 and due()):
                save()
            if ends_here:
                break
            ends = (i // e * e + e for e in (evaluate_every, checkpoint_every))
            count = min(chunk, total - i, *(end - i for end in ends))
            started = time.monotonic()
            try:
                runs = jax.block_until_ready(program.advance(runs, i, count))
            except Broken as error:
                raise UsageError(f"{error}; the run stopped and its last checkpoint remains") from None
            _check_finite(program, runs)
            i += count
            seconds = time.monotonic() - started
            speed = count * size / seconds
            display.advance(i * size, speed)
            chunk = max(1, min(2 * chunk, int(chunk * CHUNK_SECONDS / seconds) if count == chunk else chunk))
    events.close()
    return Run(folder, config, last, interrupted=i < total)


def _check_free(folder: Path) -> None:
    """A lock alone is what is left of a run that was killed before it wrote anything."""
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"--out {folder} is a file; valid: a new or empty directory")
    if folder.exists() and any(p.name != ".lock" for p in folder.iterdir()):
        what = "another run" if (folder / "config.json").exists() else "other files"
        raise UsageError(f"--out {folder} holds {what}; valid: a new or empty directory, or `vgcrl resume` to go on")


def _clear(folder: Path, keep: bool) -> None:
    """As it was before: empty, or not there."""
    with suppress(OSError):
        for path in folder.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        if not keep:
            folder.rmdir()


def _write_config(folder: Path, config: Config) -> None:
    path, text = folder / "config.json", config.to_json()
    if not path.exists() or path.read_text() != text:
        put(path, text)


def _fresh_folder(config: Config) -> Path:
    """runs/METHOD-ENV, with a number where that is taken; made, so that no other run takes it too."""
    base = Path("runs") / f"{config.method}-{config.env}"
    folder, i = base, 1
    while True:
        try:
            folder.mkdir(parents=True)
            return folder
        except FileExistsError:
            i += 1
            folder = Path(f"{base}-{i}")


def start(config: Config, folder: Path | None, *, quiet: bool = False, evaluated: Evaluated = NOBODY) -> Run:
    """Train a new run, in a fresh folder unless told. Everything is checked before anything is written."""
    chosen, config = config.engine == "auto", resolve(config)
    if folder is not None:
        _check_free(folder)
    program = compile_config(config)
    runs = jax.block_until_ready(program.init())
    _check_start(program, runs)
    try:
        found = folder is not None and folder.exists()
        folder = folder or _fresh_folder(config)
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        where = f"--out {folder}" if folder else error.filename
        raise UsageError(f"{where} cannot be created: {error.strerror}; valid: a writable place") from None
    with _locked(folder), Display(config.method, config.steps, quiet) as display:
        _check_free(folder)  # another run may have been faster
        _write_config(folder, config)
        if chosen and not (config.native or quiet):
            display.note(f"{config.env}: engine {config.engine}")
        _note_idle(program, display)
        try:
            return _loop(program, folder, runs, START, display, evaluated)
        except Broken:
            if not checkpoint.saved(folder):
                _clear(folder, found)  # the command may be tried again
            raise


def read_config(folder: Path) -> Config:
    path = folder / "config.json"
    try:
        return Config.from_json(path.read_text())
    except (FileNotFoundError, NotADirectoryError):
        raise UsageError(
            f"{folder} is not a run directory: it has no config.json; valid: what `vgcrl train --out` made"
        ) from None
    except (OSError, TypeError, ValueError, RecursionError) as error:
        raise UsageError(f"{path} cannot be read as a run's configuration: {error}") from None


def _is_code_in(folder: Path, env: Any) -> bool:
    """Whether the module that registers an environment may be imported from a folder."""
    module = str(env).rpartition(":")[0]
    bases = [Path(base) for base in (*sys.path, "")] if module else []
    files = [base.joinpath(*module.split(".")) for base in bases]
    files += [file.with_name(file.name + suffix) for file in files for suffix in all_suffixes()]
    files += [base for base in bases if base.is_file()]  # an archive
    return any(file.exists() and file.resolve().is_relative_to(folder.resolve()) for file in files)


def _sound_config(folder: Path) -> Config:
    """Of a run that is to go on: it may have been edited."""
    config = read_config(folder)
    if _is_code_in(folder, config.env):
        what = f"its environment {config.env} is code in the same folder, which is not executed"
        raise UsageError(f"{folder}: {what}; valid: a module outside it")
    try:
        return resolve(config)
    except UsageError as error:
        raise UsageError(f"{folder / 'config.json'}: {error}") from None
    except (TypeError, KeyError, AttributeError, ValueError) as error:
        raise UsageError(f"{folder / 'config.json'} is no configuration: {error!r}; valid: as it was written") from None


def done(folder: Path) -> int:
    """Steps of a run by its last checkpoint, or by its policy where that is all there is."""
    saved = checkpoint.saved(folder)
    return int(saved[0].name) if saved else checkpoint.policy_step(folder)


def finished(folder: Path) -> bool:
    return (folder / "config.json").exists() and done(folder) >= read_config(folder).steps


def restore(folder: Path, warn: Callable[[str], None]) -> tuple[Program, RunState, dict[str, Any]]:
    """A run as its newest sound checkpoint has it; as much of it as its policy is, where that is newer."""
    program, step = compile_config(_sound_config(folder)), 0
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
    config = _sound_config(folder)
    if steps is not None:
        config = resolve(dataclasses.replace(config, steps=steps))
    with _locked(folder), Display(config.method, config.steps, quiet) as display:
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
        _write_config(folder, config)
        truncate_lines(folder / "metrics.jsonl", counters["step"])
        return _loop(program, folder, runs, counters, display, evaluated)
