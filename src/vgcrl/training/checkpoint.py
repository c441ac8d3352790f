"""The whole training state on disk, exactly: safetensors and a checksum, never anything that runs code.

A checkpoint is a directory `checkpoints/STEP` that appears by one rename, so it is whole or absent.
`state.safetensors` has its layout, the run's counters and its configuration in its header; `sha256` covers the file.
Beside them `policy.safetensors` has what acting and q need, as the last evaluation found it: small without replay,
and with `config.json` all that it takes to use a policy elsewhere. Its checksum is in its own header, and covers it.
"""

import hashlib
import json
import math
import os
import re
import shutil
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jax
import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as to_bytes
from safetensors.numpy import save_file

from vgcrl.errors import UsageError
from vgcrl.files import atomic_write, make_folder, open_to_read, read_small
from vgcrl.objective.types import PRNG

LAYOUT = 4  # raise when the meaning of the arrays, or the header, changes
KEPT = 2
COUNTERS = {"step": int, "iteration": int, "wall": float}
HOST_ENVS = "envs."
HEADER = 2**24  # bytes, at most
HOST_ENV = 2**20  # bytes, at most, of one environment on the host
BLANK = b'"sha256":"' + 64 * b"0" + b'"'
DIGEST = re.compile(rb'"sha256":"([0-9a-f]{64})"')
# What may be changed in config.json after a run has begun, since it changes nothing that was learned.
ADJUSTABLE = ("steps", "engine", "workers", "evaluate_every", "evaluate_episodes", "checkpoint_every", "log_every")
UNREADABLE = (OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError, SafetensorError)


class Damaged(Exception):
    """A checkpoint that is not what was written."""


class OtherLayout(UsageError):
    """Written by another version."""


class DamagedPolicy(UsageError):
    """A policy that is not what was written."""


class NoneSound(UsageError):
    """Nothing to go on from."""


def _is_key(x: Any) -> bool:
    return jax.dtypes.issubdtype(x.dtype, jax.dtypes.prng_key)


def _named(tree: Any) -> dict[str, Any]:
    return {jax.tree_util.keystr(path): leaf for path, leaf in jax.tree_util.tree_leaves_with_path(tree)}


def _kinds(template: Any) -> dict[str, tuple[tuple[int, ...], np.dtype]]:
    """Shape and type on disk of every array of a state."""
    named = _named(template).items()
    return {
        k: ((*x.shape, 2), np.dtype(np.uint32)) if _is_key(x) else (tuple(x.shape), np.dtype(x.dtype)) for k, x in named
    }


def size_of(template: Any) -> int:
    """Bytes of a state with the shapes of `template`."""
    return sum(math.prod(shape) * kind.itemsize for shape, kind in _kinds(template).values())


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _checksum(path: Path) -> str:
    with open_to_read(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _check_size(file: Path, most: int) -> None:
    """Before anything of it is read."""
    with open_to_read(file) as opened:
        size = os.fstat(opened.fileno()).st_size
    if size > most + HEADER:
        raise Damaged(f"{file} has {size:,} bytes, of which config.json describes {most:,}")


def _raw(state: Any) -> dict[str, np.ndarray]:
    raw = {k: np.asarray(jax.random.key_data(x) if _is_key(x) else x) for k, x in _named(state).items()}
    return {k: np.ascontiguousarray(x) for k, x in raw.items()}


def _header(step: int, counters: dict[str, Any], config: str) -> dict[str, str]:
    return {"layout": str(LAYOUT), "counters": json.dumps({"step": step, **counters}), "config": config}


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
    raw = _raw(state) | {HOST_ENVS + k: np.ascontiguousarray(x) for k, x in envs.items()}
    try:
        save_file(raw, new / "state.safetensors", _header(step, counters, config))
    except SafetensorError as error:
        raise OSError(f"{new / 'state.safetensors'}: {error}") from None
    (new / "sha256").write_text(_checksum(new / "state.safetensors") + "\n")
    (new / "state.safetensors").chmod((new / "sha256").stat().st_mode)  # safetensors lets nobody else read
    for path in (new / "state.safetensors", new / "sha256", new):
        _sync(path)
    _remove(folder / name)
    new.rename(folder / name)
    _sync(folder)
    for old in saved(run)[KEPT:]:
        shutil.rmtree(old)


def _counters(text: str) -> dict[str, Any]:
    found = json.loads(text)
    counters = {name: kind(found[name]) for name, kind in COUNTERS.items()}
    if min(counters.values()) < 0 or not math.isfinite(counters["wall"]) or counters["step"] > 2**40:
        raise ValueError(f"counters {text} are none")
    return counters


def _open_header(file: Path, opened: Any) -> tuple[dict[str, Any], str]:
    """Counters, and the configuration they were written with."""
    header = opened.metadata() or {}
    if header.get("layout") != str(LAYOUT):
        raise OtherLayout(f"{file}: layout {header.get('layout')}; valid: a run of this version, layout {LAYOUT}")
    return _counters(header["counters"]), header["config"]


def _open(file: Path) -> tuple[dict[str, np.ndarray], dict[str, Any], str]:
    """Arrays, counters and configuration."""
    with safe_open(file, "numpy") as opened:
        counters, config = _open_header(file, opened)
        return {name: opened.get_tensor(name) for name in opened.keys()}, counters, config  # noqa: SIM118


@contextmanager
def _soundly(file: Path) -> Generator[None]:
    """However a file is not as it was written, it is one kind of error; one of another version is not that."""
    try:
        yield
    except OtherLayout:
        raise
    except UNREADABLE as error:
        raise Damaged(f"{file}: {error}") from None


def _build(file: Path, arrays: dict[str, np.ndarray], template: Any) -> Any:
    """`template` has the shapes and types to expect."""

    def leaf(name: str, like: Any) -> Any:
        x = jax.numpy.asarray(arrays[name])
        return jax.random.wrap_key_data(x, impl=PRNG) if _is_key(like) else x

    if {k: (x.shape, x.dtype) for k, x in arrays.items()} != _kinds(template):
        raise UsageError(f"{file}: not what config.json describes; valid: that file as it was written by this version")
    return jax.tree.unflatten(jax.tree.structure(template), [leaf(k, v) for k, v in _named(template).items()])


def _check_config(file: Path, written: str, now: str, warn: Callable[[str], None]) -> None:
    """Refuse a configuration that was edited; tell what may be."""
    before, after = json.loads(written), json.loads(now)
    changed = [k for k in after if k in before and after[k] != before[k]]
    for name in changed:
        what = f"config.json has {name} {after[name]!r}, {file} was written with {before[name]!r}"
        if name not in ADJUSTABLE:
            raise UsageError(f"{what}; valid: config.json as it was written, or a new run")
        warn(f"{what}; going on with {after[name]!r}")


def read(
    path: Path, template: Any, config: str, warn: Callable[[str], None], envs: int = 0
) -> tuple[Any, dict[str, Any], dict[str, np.ndarray]]:
    """State, counters and environments of one checkpoint; `envs` is the number of environments on the host."""
    file = path / "state.safetensors"
    with _soundly(file):
        _check_size(file, size_of(template) + envs * HOST_ENV)
        if _checksum(file) != read_small(path / "sha256", 1000).decode().strip():
            raise Damaged(f"{file} does not match its checksum")
        arrays, counters, written = _open(file)
        if counters["step"] != int(path.name):
            raise Damaged(f"{file} is of step {counters['step']}")
    _check_config(file, written, config, warn)
    hosted = {k.removeprefix(HOST_ENVS): arrays.pop(k) for k in list(arrays) if k.startswith(HOST_ENVS)}
    return _build(file, arrays, template), counters, hosted


def _policy(run: Path) -> Path:
    return run / "policy.safetensors"


def save_policy(run: Path, step: int, state: Any, counters: dict[str, Any], *, config: str) -> None:
    write_policy(run, _raw(state), _header(step, counters, config))


def write_policy(run: Path, arrays: dict[str, np.ndarray], header: dict[str, str]) -> None:
    data = to_bytes(arrays, header | {"sha256": 64 * "0"})
    digest = BLANK.replace(64 * b"0", hashlib.sha256(data).hexdigest().encode())
    atomic_write(_policy(run), data.replace(BLANK, digest, 1))


def _check_policy(file: Path) -> None:
    """Its checksum is that of the file with zeros in place of the checksum."""
    with open_to_read(file) as opened:
        length = opened.read(8)
        size = int.from_bytes(length, "little")
        head = opened.read(min(size, HEADER))
        found = DIGEST.search(head)
        if found is None:
            raise Damaged(f"{file} has no checksum")
        digest = hashlib.sha256(length + DIGEST.sub(BLANK, head, count=1))
        while block := opened.read(2**20):
            digest.update(block)
    if digest.hexdigest().encode() != found[1]:
        raise Damaged(f"{file} does not match its checksum")


@contextmanager
def _sound_policy(file: Path) -> Generator[None]:
    try:
        with _soundly(file):
            yield
    except Damaged as error:
        raise DamagedPolicy(f"damaged policy: {error}; valid: the file as it was written") from None


def read_policy(run: Path, template: Any, config: str, warn: Callable[[str], None]) -> tuple[Any, dict[str, Any]]:
    file = _policy(run)
    with _sound_policy(file):
        _check_size(file, size_of(template))
        _check_policy(file)
        arrays, counters, written = _open(file)
    _check_config(file, written, config, warn)
    return _build(file, arrays, template), counters


def policy_step(run: Path) -> int:
    """0 where there is none."""
    file = _policy(run)
    if not file.exists():
        return 0
    with _sound_policy(file):
        open_to_read(file).close()
        with safe_open(file, "numpy") as opened:
            counters, _ = _open_header(file, opened)
        _check_policy(file)
        return counters["step"]


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
