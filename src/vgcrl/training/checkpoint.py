"""Checkpoints: the whole training state on disk, exactly, so that a run goes on to the last bit.

A checkpoint is a folder `checkpoints/STEP` that appears by one rename, so it is whole or absent. Its file `sha256` has
the checksum of `state.safetensors`.
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

LAYOUT = 5  # increase when the meaning of its arrays, or of the header, changes
KEPT = 2  # checkpoints of a run
HOST_ENVS = "envs."  # prefix of the arrays of environments on the host
HOST_ENV = 2**20  # most bytes of one environment on the host


class NoneSound(UsageError):
    """Raised if a run has no sound checkpoint to go on from."""


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def checksum(path: Path) -> str:
    """Returns the SHA-256 of a file, in hexadecimal."""
    with open_to_read(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _folder(run: Path) -> Path:
    return run / "checkpoints"


def saved(run: Path) -> list[Path]:
    """Returns the folders of checkpoints, newest first; links are ignored."""
    folder = _folder(run)
    if folder.is_symlink() or not folder.is_dir():
        return []
    named = (p for p in folder.iterdir() if re.fullmatch("[0-9]{12}", p.name))
    return sorted((p for p in named if p.is_dir() and not p.is_symlink()), reverse=True)


def _remove(path: Path) -> None:
    """Remove a folder with all that is in it; of a link only the link."""
    if path.is_symlink() or path.is_file():
        path.unlink()
    elif path.exists():
        shutil.rmtree(path)


def _write(folder: Path, arrays: dict[str, np.ndarray], header: dict[str, str]) -> None:
    """Write the files of a checkpoint into a new folder, and wait until they are on the disk."""
    file, digest = folder / "state.safetensors", folder / "sha256"
    with naming(file):
        try:
            save_file(arrays, file, header)
        except SafetensorError as error:
            raise OSError(errno.EIO, str(error)) from None
        digest.write_text(checksum(file) + "\n", encoding="utf-8")
        file.chmod(digest.stat().st_mode)  # safetensors lets nobody else read
        for path in (file, digest, folder):
            _sync(path)


def save(
    run: Path, step: int, state: Any, counters: dict[str, Any], envs: dict[str, np.ndarray], *, config: str
) -> None:
    """Write a checkpoint, and remove all but the newest KEPT. `envs` is the state of environments on the host, which
    `state` does not contain; `config` is the text of config.json."""
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
        with suppress(OSError):  # what was written of it is of no use
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
    """Returns state, counters and environments of a checkpoint; `envs` is the number of environments on the host."""
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
    """Returns what `read` does, for the newest sound checkpoint at step `least` or later.

    Damaged ones are reported to `warn` and skipped.
    """
    for path in (path for path in saved(run) if int(path.name) >= least):
        try:
            return read(path, template, config, warn, envs)
        except Damaged as error:
            warn(f"damaged checkpoint skipped: {error}")
    raise NoneSound(f"{run}: no sound checkpoint in {_folder(run)}; valid: a run that has saved at least one")
