"""A run directory: its lock, its configuration, how far it got; and what may be written there."""

import fcntl
import shutil
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from importlib.machinery import all_suffixes
from pathlib import Path
from typing import Any, NamedTuple

from vgcrl.errors import UsageError
from vgcrl.files import atomic_write
from vgcrl.training import checkpoint
from vgcrl.training.config import Config
from vgcrl.training.logs import read_lines
from vgcrl.training.options import Options
from vgcrl.training.resolve import resolve


class Run(NamedTuple):
    """A trained run: its directory, and the record of its last evaluation."""

    dir: Path
    config: Config
    last: dict[str, Any]
    interrupted: bool

    @property
    def metrics(self) -> list[dict[str, Any]]:
        return read_lines(self.dir / "metrics.jsonl")


@contextmanager
def locked(folder: Path) -> Generator[None]:
    """One process at a time may write a run."""
    with (folder / ".lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise UsageError(
                f"{folder}: another process is training this run; valid: wait for it, or stop it"
            ) from None
        yield


def check_free(folder: Path) -> None:
    """A lock alone is what is left of a run that was killed before it wrote anything."""
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"--out {folder} is a file; valid: a new or empty directory")
    if folder.exists() and any(p.name != ".lock" for p in folder.iterdir()):
        what = "another run" if (folder / "config.json").exists() else "other files"
        raise UsageError(f"--out {folder} holds {what}; valid: a new or empty directory, or `vgcrl resume` to go on")


def clear(folder: Path, keep: bool) -> None:
    """As it was before: empty, or not there."""
    with suppress(OSError):
        for path in folder.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        if not keep:
            folder.rmdir()


def write_config(folder: Path, config: Config) -> None:
    path, text = folder / "config.json", config.to_json()
    if not path.exists() or path.read_text() != text:
        atomic_write(path, text)


def fresh_folder(config: Config) -> Path:
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


def is_code_in(folder: Path, env: Any) -> bool:
    """Whether the module that registers an environment may be imported from a folder."""
    module = str(env).rpartition(":")[0]
    bases = [Path(base) for base in (*sys.path, "")] if module else []
    files = [base.joinpath(*module.split(".")) for base in bases]
    files += [file.with_name(file.name + suffix) for file in files for suffix in all_suffixes()]
    files += [base for base in bases if base.is_file()]  # an archive
    return any(file.exists() and file.resolve().is_relative_to(folder.resolve()) for file in files)


def checked_config(folder: Path) -> Config:
    """Of a run that is to go on: it may have been edited."""
    config = read_config(folder)
    if is_code_in(folder, config.env):
        what = f"its environment {config.env} is code in the same folder, which is not executed"
        raise UsageError(f"{folder}: {what}; valid: a module outside it")
    try:
        return resolve(Options.of(config))
    except UsageError as error:
        raise UsageError(f"{folder / 'config.json'}: {error}") from None
    except (TypeError, KeyError, AttributeError, ValueError) as error:
        raise UsageError(f"{folder / 'config.json'} is no configuration: {error!r}; valid: as it was written") from None


def steps_done(folder: Path) -> int:
    """Steps of a run by its last checkpoint, or by its policy where that is all there is."""
    saved = checkpoint.saved(folder)
    return int(saved[0].name) if saved else checkpoint.policy_step(folder)


def is_finished(folder: Path) -> bool:
    return (folder / "config.json").exists() and steps_done(folder) >= read_config(folder).steps
