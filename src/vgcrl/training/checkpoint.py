"""The whole training state on disk, exactly, so that a run goes on to the bit.

A checkpoint is a directory `checkpoints/STEP` that appears by one rename, so it is whole or absent. `sha256` in it
covers `state.safetensors`.
"""

import errno
import hashlib
import os
import re
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import save_file

from vgcrl.errors import UsageError
from vgcrl.files import make_folder, naming, open_to_read, read_small
from vgcrl.training import state_file
from vgcrl.training.state_file import Damaged

LAYOUT = 5  # raise when the meaning of its arrays, or of the header, changes
KEPT = 2
HOST_ENVS = "envs."
HOST_ENV = 2**20  # bytes, at most, of one environment on the host


class NoneSound(UsageError):
    """Nothing to go on from."""


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def checksum(path: Path) -> str:
    with open_to_read(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _folder(run: Path) -> Path:
    return run / "checkpoints"


def saved(run: Path) -> list[Path]:
    """Folders of checkpoints, newest first; links are none."""
    folder = _folder(run)
    if folder.is_symlink() or not folder.is_dir():
        return []
    named = (p for p in folder.iterdir() if re.fullmatch("[0-9]{12}", p.name))
    return sorted((p for p in named if p.is_dir() and not p.is_symlink()), reverse=True)


def _remove(path: Path) -> None:
    """A folder with all that is in it; of a link the link."""
    if path.is_symlink() or path.is_file():
        path.unlink()
    elif path.exists():
        shutil.rmtree(path)


def _write(folder: Path, arrays: dict[str, np.ndarray], header: dict[str, str]) -> None:
    """Into a new folder, down to the disk."""
    file, digest = folder / "state.safetensors", folder / "sha256"
    with naming(file):
        try:
            save_file(arrays, file, header)
        except SafetensorError as error:
            raise OSError(errno.EIO, str(error)) from None
        digest.write_text(checksum(file) + "\n")
        file.chmod(digest.stat().st_mode)  # safetensors lets nobody else read
        for path in (file, digest, folder):
            _sync(path)


def save(
    run: Path, step: int, state: Any, counters: dict[str, Any], envs: dict[str, np.ndarray], *, config: str
) -> None:
    """`envs` holds the environments where they are not part of the state; `config` is the text of config.json."""
    folder, name = _folder(run), f"{step:012d}"
    make_folder(folder)
    for leftover in folder.glob(".*"):
        if re.fullmatch("[.][0-9]+", leftover.name):
            _remove(leftover)
    new = folder / f".{name}"
    new.mkdir()
    hosted = {HOST_ENVS + k: np.ascontiguousarray(x) for k, x in envs.items()}
    try:
        _write(new, state_file.to_arrays(state) | hosted, state_file.header_of(LAYOUT, step, counters, config))
    except OSError:
        with suppress(OSError):  # a part of it would only take room
            _remove(new)
        raise
    _remove(folder / name)
    new.rename(folder / name)
    _sync(folder)
    older = [path for path in saved(run) if path.name < name]  # one of a later step is damaged, or of another run
    for old in older[KEPT - 1 :]:
        shutil.rmtree(old)


def read(
    path: Path, template: Any, config: str, warn: Callable[[str], None], envs: int = 0
) -> tuple[Any, dict[str, Any], dict[str, np.ndarray]]:
    """State, counters and environments of one checkpoint; `envs` is the number of environments on the host."""
    file = path / "state.safetensors"
    with state_file.soundly(file):
        state_file.check_size(file, state_file.size_of(template) + envs * HOST_ENV)
        if checksum(file) != read_small(path / "sha256", 1000).decode().strip():
            raise Damaged(f"{file} does not match its checksum")
        arrays, counters, written = state_file.read_arrays(file, LAYOUT)
        if counters["step"] != int(path.name):
            raise Damaged(f"{file} is of step {counters['step']}")
    state_file.check_config(file, written, config, warn)
    hosted = {k.removeprefix(HOST_ENVS): arrays.pop(k) for k in list(arrays) if k.startswith(HOST_ENVS)}
    return state_file.from_arrays(file, arrays, template), counters, hosted


def newest(
    run: Path, template: Any, config: str, warn: Callable[[str], None], envs: int = 0, least: int = 0
) -> tuple[Any, dict[str, Any], dict[str, np.ndarray]]:
    """The newest sound checkpoint, of `least` steps or more; a damaged one is named and the one before it used."""
    for path in (path for path in saved(run) if int(path.name) >= least):
        try:
            return read(path, template, config, warn, envs)
        except Damaged as error:
            warn(f"damaged checkpoint skipped: {error}")
    raise NoneSound(f"{run}: no sound checkpoint in {_folder(run)}; valid: a run that has saved at least one")
