"""The whole training state on disk, exactly: safetensors and a checksum, never anything that runs code.

A checkpoint is a directory `checkpoints/STEP` that appears by one rename, so it is whole or absent.
`state.safetensors` carries its layout and the run's counters in its header; `sha256` covers the file.
Beside them `policy.safetensors` has what acting and q need, as the last evaluation found it: small without replay,
and with `config.json` all that it takes to use a policy elsewhere.
"""

import hashlib
import json
import os
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
from vgcrl.files import atomic_write
from vgcrl.objective.types import PRNG

LAYOUT = 3  # raise when the meaning of the arrays changes
KEPT = 2
COUNTERS = {"step": int, "iteration": int, "wall": float}
HOST_ENVS = "envs."


class Damaged(Exception):
    """A checkpoint that is not what was written."""


class NoneSound(UsageError):
    """Nothing to go on from."""


def _is_key(x: Any) -> bool:
    return jax.dtypes.issubdtype(x.dtype, jax.dtypes.prng_key)


def _named(tree: Any) -> dict[str, Any]:
    return {jax.tree_util.keystr(path): leaf for path, leaf in jax.tree_util.tree_leaves_with_path(tree)}


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _checksum(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _digest(arrays: dict[str, np.ndarray]) -> str:
    digest = hashlib.sha256()
    for name in sorted(arrays):
        digest.update(arrays[name].tobytes())
    return digest.hexdigest()


def _raw(state: Any) -> dict[str, np.ndarray]:
    raw = {k: np.asarray(jax.random.key_data(x) if _is_key(x) else x) for k, x in _named(state).items()}
    return {k: np.ascontiguousarray(x) for k, x in raw.items()}


def _header(step: int, counters: dict[str, Any]) -> dict[str, str]:
    return {"layout": str(LAYOUT), "counters": json.dumps({"step": step, **counters})}


def _folder(run: Path) -> Path:
    return run / "checkpoints"


def saved(run: Path) -> list[Path]:
    """Newest first."""
    folder = _folder(run)
    return sorted((p for p in folder.glob("*") if p.name.isdigit()), reverse=True) if folder.is_dir() else []


def save(run: Path, step: int, state: Any, counters: dict[str, Any], envs: dict[str, np.ndarray]) -> None:
    """`envs` holds the environments where they are not part of the state."""
    folder, name = _folder(run), f"{step:012d}"
    folder.mkdir(exist_ok=True)
    for leftover in folder.glob(".*"):
        if leftover.name[1:].isdigit():
            shutil.rmtree(leftover)
    new = folder / f".{name}"
    new.mkdir()
    raw = _raw(state) | {HOST_ENVS + k: np.ascontiguousarray(x) for k, x in envs.items()}
    try:
        save_file(raw, new / "state.safetensors", _header(step, counters))
    except SafetensorError as error:
        raise OSError(f"{new / 'state.safetensors'}: {error}") from None
    (new / "sha256").write_text(_checksum(new / "state.safetensors") + "\n")
    (new / "state.safetensors").chmod((new / "sha256").stat().st_mode)  # safetensors lets nobody else read
    for path in (new / "state.safetensors", new / "sha256", new):
        _sync(path)
    if (folder / name).exists():
        shutil.rmtree(folder / name)
    new.rename(folder / name)
    _sync(folder)
    for old in saved(run)[KEPT:]:
        shutil.rmtree(old)


def _open(file: Path) -> tuple[dict[str, np.ndarray], dict[str, Any], dict[str, str]]:
    """Arrays, counters and header."""
    with safe_open(file, "numpy") as opened:
        header = opened.metadata() or {}
        if header.get("layout") != str(LAYOUT):
            raise UsageError(f"{file}: layout {header.get('layout')}; valid: a run of this version, layout {LAYOUT}")
        arrays = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118
        found = json.loads(header["counters"])
        return arrays, {name: kind(found[name]) for name, kind in COUNTERS.items()}, header


@contextmanager
def _soundly(file: Path) -> Generator[None]:
    """However a file is not as it was written, it is one kind of error."""
    try:
        yield
    except (OSError, ValueError, KeyError, TypeError, AttributeError, SafetensorError) as error:
        raise Damaged(f"{file}: {error}") from None


def _build(file: Path, arrays: dict[str, np.ndarray], template: Any) -> Any:
    """`template` has the shapes and types to expect."""

    def leaf(name: str, like: Any) -> Any:
        x = jax.numpy.asarray(arrays[name])
        return jax.random.wrap_key_data(x, impl=PRNG) if _is_key(like) else x

    names, expected = set(arrays), _named(template)
    kinds = {k: ((*v.shape, 2), np.uint32) if _is_key(v) else (v.shape, v.dtype) for k, v in expected.items()}
    if names != set(expected) or any((arrays[k].shape, arrays[k].dtype) != kinds[k] for k in names):
        raise UsageError(f"{file}: not what config.json describes; valid: that file as it was written by this version")
    return jax.tree.unflatten(jax.tree.structure(template), [leaf(k, v) for k, v in expected.items()])


def read(path: Path, template: Any) -> tuple[Any, dict[str, Any], dict[str, np.ndarray]]:
    """State, counters and environments of one checkpoint."""
    file = path / "state.safetensors"
    with _soundly(file):
        if _checksum(file) != (path / "sha256").read_text().strip():
            raise Damaged(f"{file} does not match its checksum")
        arrays, counters, _ = _open(file)
    envs = {k.removeprefix(HOST_ENVS): arrays.pop(k) for k in list(arrays) if k.startswith(HOST_ENVS)}
    return _build(file, arrays, template), counters, envs


def _policy(run: Path) -> Path:
    return run / "policy.safetensors"


def save_policy(run: Path, step: int, state: Any, counters: dict[str, Any]) -> None:
    raw = _raw(state)
    atomic_write(_policy(run), to_bytes(raw, _header(step, counters) | {"sha256": _digest(raw)}))


def _open_policy(run: Path) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    file = _policy(run)
    try:
        with _soundly(file):
            arrays, counters, header = _open(file)
            if header["sha256"] != _digest(arrays):
                raise Damaged(f"{file} does not match its checksum")
    except Damaged as error:
        raise UsageError(f"damaged policy: {error}; valid: the file as it was written") from None
    return arrays, counters


def read_policy(run: Path, template: Any) -> tuple[Any, dict[str, Any]]:
    arrays, counters = _open_policy(run)
    return _build(_policy(run), arrays, template), counters


def policy_step(run: Path) -> int:
    """0 where there is none."""
    return _open_policy(run)[1]["step"] if _policy(run).exists() else 0


def newest(
    run: Path, template: Any, warn: Callable[[str], None], least: int = 0
) -> tuple[Any, dict[str, Any], dict[str, np.ndarray]]:
    """The newest sound checkpoint, of `least` steps or more; a damaged one is named and the one before it used."""
    for path in (path for path in saved(run) if int(path.name) >= least):
        try:
            return read(path, template)
        except Damaged as error:
            warn(f"damaged checkpoint skipped: {error}")
    raise NoneSound(f"{run}: no sound checkpoint in {_folder(run)}; valid: a run that has saved at least one")
