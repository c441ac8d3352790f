"""A run folder: its lock, its configuration, how far it got."""

import fcntl
import os
import shlex
import shutil
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from vgcrl.envs import Broken, find, modules
from vgcrl.errors import UsageError
from vgcrl.files import atomic_write, folder_name, leftover_of, open_to_write, read_small
from vgcrl.training import checkpoint, history, policy_file
from vgcrl.training.config import Config
from vgcrl.training.logs import read_lines
from vgcrl.training.options import Options
from vgcrl.training.resolve import resolve

ERROR = "error.txt"
FILES = ("config.json", "metrics.jsonl", "policy.safetensors", "checkpoints", "events", "report.html", ERROR, ".lock")


class Run(NamedTuple):
    """All runs that were trained together: their run folder, configuration, and the record of the last evaluation.

    `interrupted` is true if training was stopped before its last step.
    """

    dir: Path
    config: Config
    last: dict[str, Any]
    interrupted: bool

    @property
    def metrics(self) -> list[dict[str, Any]]:
        """The records of all evaluations."""
        return read_lines(self.dir / "metrics.jsonl")

    def __repr__(self) -> str:
        done = f"{self.last['step']:,} steps, {self.config.runs} run{'s' * (self.config.runs != 1)}"
        return f"Run({str(self.dir)!r}: {self.config.method} on {self.config.env}, {done})"

    def history(self) -> Any:
        """Returns all evaluations, a row per step and run: a pandas DataFrame, or a list of dicts without pandas.

        Examples:
            >>> run.history().query("seed == 0").plot("step", "F")
        """
        rows = history.rows(self.metrics)
        try:
            import pandas
        except ImportError:
            return rows
        return pandas.DataFrame(rows)

    def plot(self, metric: str = "F") -> Any:
        """Returns a matplotlib Figure of a metric over environment steps, with a line per run.

        Examples:
            >>> run.plot("lgr_z").savefig("lgr_z.png")
        """
        return history.figure(history.rows(self.metrics), metric)


def _check_links(folder: Path) -> None:
    """Raise UsageError if a file that the run writes is a link: before training, not when it is to be saved."""
    for name in FILES:
        if (folder / name).is_symlink():
            raise UsageError(
                f"{folder / name} is a link, which nothing is written through; valid: a copy of what it shows"
            )


@contextmanager
def locked(folder: Path, what: str = "run") -> Generator[Callable[[], None]]:
    """Lock the folder of a run, or of `what` it is, so that only one process writes it.

    Yields a function that raises if the folder of a run is gone or was replaced.
    """
    path = folder.absolute() / ".lock"
    _check_links(folder)
    with open_to_write(path, append=True) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise UsageError(
                f"{folder}: another process is training this {what}; valid: wait for it, or stop it"
            ) from None
        mine = os.fstat(file.fileno())

        def check() -> None:
            if (
                not path.exists()
                or not os.path.samestat(path.lstat(), mine)
                or not path.with_name("config.json").exists()
            ):
                gone = "was removed or replaced while it was being trained, so nothing more can be saved there"
                raise UsageError(f"{folder} {gone}; valid: a folder that stays")

        yield check


def _left_by_a_failure(path: Path) -> bool:
    """Returns whether a file is what a run leaves that was killed, or failed, before it saved anything."""
    return path.name in (".lock", ERROR) or leftover_of(path) in FILES


def check_free(folder: Path) -> None:
    """Raise UsageError unless the folder is new, or empty but for what a failure left."""
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"--out {folder} is a file; valid: a new or empty directory")
    if folder.exists() and not all(map(_left_by_a_failure, folder.iterdir())):
        what = "another run" if is_started(folder) else "other files"
        raise UsageError(f"--out {folder} holds {what}; valid: a new or empty directory, or `vgcrl resume` to go on")


def remove_leftovers(folder: Path) -> None:
    for path in folder.iterdir():
        if path.name != ".lock" and _left_by_a_failure(path):
            path.unlink()


def write_error(folder: Path, error: Broken) -> str:
    """Write the traceback of a failed environment to the run folder. Returns the end of a message that says where."""
    if not error.traceback:
        return ""
    atomic_write(folder / ERROR, error.traceback)
    return f"; the whole traceback is in {folder / ERROR}"


def clear(folder: Path) -> None:
    """Empty the folder, except for the traceback of a failure, so that the same command can be tried again."""
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        elif path.name not in (ERROR, ".lock"):
            path.unlink()


def write_config(folder: Path, config: Config) -> None:
    path, text = folder / "config.json", config.to_json()
    if not path.exists() or read_small(path).decode() != text:
        atomic_write(path, text)


def leads_to(place: Path, folder: Path) -> bool:
    """Returns whether a path as the user gave it is `place` from the current folder too, which code of the user's may
    have changed or removed."""
    try:
        return folder.absolute() == place
    except FileNotFoundError:
        return False


def command_for(command: str, folder: Path, config: Config) -> str:
    """Returns a command that reads this run."""
    name = f"./{folder}" if str(folder).startswith("-") else str(folder)  # which would be taken for an option
    return f"vgcrl {command} {shlex.quote(name)}{modules.to_import(config.env, config.plugins)}"


def usual_folder(config: Config) -> Path:
    return Path("runs") / folder_name(config.method, config.env)


def fresh_folder(config: Config) -> Path:
    """Create and return the usual folder, with a number if that is taken. Creating it reserves it for this run."""
    base = usual_folder(config)
    folder, i = base, 1
    while True:
        try:
            folder.mkdir(parents=True)
            return folder
        except FileExistsError:
            i += 1
            folder = Path(f"{base}-{i}")


def _check_not_many(folder: Path) -> None:
    """Raise UsageError if a folder holds the runs of a sweep or of an experiment."""
    runs, swept = sorted(path.parent for path in folder.glob("runs/*/config.json")), (folder / "sweep.json").exists()
    if runs or swept:
        what = "a sweep, which the same `vgcrl sweep` goes on with" if swept else "a folder of runs"
        valid = f"one of its runs, e.g. {runs[0]}" if runs else f"one of its runs, when they are in {folder / 'runs'}"
        raise UsageError(f"{folder} is {what}; valid: {valid}")


def read_config(folder: Path) -> Config:
    """Returns the configuration of a run folder."""
    path = folder / "config.json"
    try:
        return Config.from_json(read_small(path).decode())
    except (FileNotFoundError, NotADirectoryError):
        _check_not_many(folder)
        begun = (folder / ".lock").exists()
        valid = f"`vgcrl train --out {folder}`, nothing was saved" if begun else "what `vgcrl train --out` made"
        raise UsageError(f"{folder} is not a run folder: it has no config.json; valid: {valid}") from None
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from None
    except (OSError, TypeError, ValueError, RecursionError, AttributeError) as error:
        what = f"{path} cannot be read as a run's configuration: {error}"
        raise UsageError(f"{what}; valid: config.json as it was written") from None


def checked_config(folder: Path, *, examine: bool = False) -> Config:
    """Returns the configuration of a run to go on with, or with `examine` of one to measure, perhaps by another engine.
    It is checked, since config.json may have been edited."""
    config = read_config(folder)
    modules.check_outside(folder, str(config.env))
    try:
        if examine and config.engine in find(config.env).engines:
            config = config.examiner
        return resolve(Options.of(config))
    except Broken:
        raise
    except UsageError as error:
        raise UsageError(f"{folder / 'config.json'}: {error}") from None
    except (TypeError, KeyError, AttributeError, ValueError) as error:
        raise UsageError(f"{folder / 'config.json'} is no configuration: {error!r}; valid: as it was written") from None


def steps_done(folder: Path) -> int:
    """Returns the steps of a run at its last checkpoint, or if it has none at its saved policy."""
    saved = checkpoint.saved(folder)
    return int(saved[0].name) if saved else policy_file.step_of(folder)


def is_started(folder: Path) -> bool:
    return (folder / "config.json").exists()


def is_finished(folder: Path) -> bool:
    """Returns whether a run has been trained for all its steps."""
    return is_started(folder) and steps_done(folder) >= read_config(folder).steps


def is_evaluated(folder: Path) -> bool:
    """Returns whether the last evaluation of a run is in its metrics, written whole."""
    try:
        lines = read_lines(folder / "metrics.jsonl") if is_started(folder) else []
    except ValueError:  # cut off by a kill
        return False
    return bool(lines) and lines[-1]["step"] >= read_config(folder).steps
