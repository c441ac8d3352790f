"""A state, or a part of it, as one safetensors file: its arrays, with layout, counters and configuration in the header.

Reading it never runs code. A file that is not as it was written raises `Damaged`, whatever is wrong with it.
"""

import json
import math
import os
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jax
import numpy as np
from safetensors import SafetensorError, safe_open

from vgcrl.errors import UsageError
from vgcrl.files import open_to_read
from vgcrl.objective.types import PRNG

COUNTERS = {"step": int, "iteration": int, "wall": float}
HEADER = 2**24  # most bytes of a header
# Options that may be changed in config.json after a run has begun, since they change nothing that was learned.
ADJUSTABLE = ("steps", "engine", "workers", "evaluate_every", "evaluate_episodes", "checkpoint_every", "log_every")
UNREADABLE = (OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError, SafetensorError)


class Damaged(Exception):
    """Raised if a file is not as it was written."""


class OtherLayout(UsageError):
    """Raised if a file was written by a version with another layout."""


def _is_key(x: Any) -> bool:
    return jax.dtypes.issubdtype(x.dtype, jax.dtypes.prng_key)


def _named(tree: Any) -> dict[str, Any]:
    return {jax.tree_util.keystr(path): leaf for path, leaf in jax.tree_util.tree_leaves_with_path(tree)}


def _kinds(template: Any) -> dict[str, tuple[tuple[int, ...], np.dtype]]:
    """Returns shape and type on disk of every array of a state, by its path in the state."""
    named = _named(template).items()
    return {
        k: ((*x.shape, 2), np.dtype(np.uint32)) if _is_key(x) else (tuple(x.shape), np.dtype(x.dtype)) for k, x in named
    }


def size_of(template: Any) -> int:
    """Returns the bytes of a state with the shapes of `template`."""
    return sum(math.prod(shape) * kind.itemsize for shape, kind in _kinds(template).values())


def to_arrays(state: Any) -> dict[str, np.ndarray]:
    """Returns every array of a state, by its path in the state."""
    raw = {k: np.asarray(jax.random.key_data(x) if _is_key(x) else x) for k, x in _named(state).items()}
    return {k: np.ascontiguousarray(x) for k, x in raw.items()}


def from_arrays(file: Path, arrays: dict[str, np.ndarray], template: Any) -> Any:
    """Returns the state that `to_arrays` was given; `template` has its structure, shapes and types."""

    def leaf(name: str, like: Any) -> Any:
        x = jax.numpy.asarray(arrays[name])
        return jax.random.wrap_key_data(x, impl=PRNG) if _is_key(like) else x

    expected = _kinds(template)
    wrong = sorted(expected.keys() ^ arrays.keys()) or [
        k for k, x in arrays.items() if (x.shape, x.dtype) != expected[k]
    ]
    if wrong:
        what = f"{file}: {wrong[0]} is not as this version and config.json have it"
        raise UsageError(f"{what}; valid: a run of this version, with its files and its environment as they were")
    return jax.tree.unflatten(jax.tree.structure(template), [leaf(k, v) for k, v in _named(template).items()])


def header_of(layout: int, step: int, counters: dict[str, Any], config: str) -> dict[str, str]:
    """Returns the header of a file; `config` is the text of config.json."""
    return {"layout": str(layout), "counters": json.dumps({"step": step, **counters}), "config": config}


def _counters(text: str) -> dict[str, Any]:
    found = json.loads(text)
    counters = {name: kind(found[name]) for name, kind in COUNTERS.items()}
    if min(counters.values()) < 0 or not math.isfinite(counters["wall"]) or counters["step"] > 2**40:
        raise ValueError(f"counters {text} are none")
    return counters


def _read_header(file: Path, opened: Any, layout: int) -> tuple[dict[str, Any], dict[str, Any]]:
    header = opened.metadata() or {}
    if header.get("layout") != str(layout):
        raise OtherLayout(f"{file}: layout {header.get('layout')}; valid: a run of this version, layout {layout}")
    config = json.loads(header["config"])
    if not isinstance(config, dict):
        raise Damaged(f"{file}: its header has no configuration")
    return _counters(header["counters"]), config


def read_header(file: Path, layout: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns the counters in a file, and the configuration with which it was written."""
    with safe_open(file, "numpy") as opened:
        return _read_header(file, opened, layout)


def read_arrays(file: Path, layout: int) -> tuple[dict[str, np.ndarray], dict[str, Any], dict[str, Any]]:
    """Returns the arrays and counters in a file, and the configuration with which it was written."""
    with safe_open(file, "numpy") as opened:
        counters, config = _read_header(file, opened, layout)
        return {name: opened.get_tensor(name) for name in opened.keys()}, counters, config  # noqa: SIM118


@contextmanager
def soundly(file: Path) -> Generator[None]:
    """Turn any error in reading a file into Damaged; OtherLayout stays as it is."""
    try:
        yield
    except OtherLayout:
        raise
    except UNREADABLE as error:
        raise Damaged(f"{file}: {error}") from None


def check_size(file: Path, most: int) -> None:
    """Raise Damaged if a file is larger than `most` bytes and a header, before any of it is read."""
    with open_to_read(file) as opened:
        size = os.fstat(opened.fileno()).st_size
    if size > most + HEADER:
        raise Damaged(f"{file} has {size:,} bytes, of which config.json describes {most:,}")


def check_config(file: Path, written: dict[str, Any], now: str, warn: Callable[[str], None]) -> None:
    """Raise UsageError if config.json has changed since the file was written; `warn` of ADJUSTABLE changes."""
    after = json.loads(now)
    changed = [k for k in after if k in written and after[k] != written[k]]
    for name in changed:
        what = f"config.json has {name} {after[name]!r}, {file} was written with {written[name]!r}"
        if name not in ADJUSTABLE:
            raise UsageError(f"{what}; valid: config.json as it was written, or a new run")
        warn(f"{what}; going on with {after[name]!r}")
