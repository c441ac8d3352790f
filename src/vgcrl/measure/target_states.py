"""Target states for LGR(s): those that ship with the package, or a user's own file."""

import csv
import json
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array
from safetensors import SafetensorError, safe_open
from safetensors.numpy import load_file, save

from vgcrl.envs.observations import check_unmasked
from vgcrl.errors import UsageError
from vgcrl.files import atomic_write
from vgcrl.objective.types import EnvSpec

UNREADABLE = (OSError, ValueError, TypeError, KeyError, EOFError, OverflowError, RecursionError, MemoryError)
UNREADABLE += (RuntimeError, ZeroDivisionError, SafetensorError, csv.Error)
UNREADABLE += (AttributeError,)  # raised where NumPy lacks a dtype of safetensors
ARRAYS = {"states": np.float32, "asked": np.float32, "achieved": np.float32, "steps": np.int64, "fell": np.bool_}
LARGEST = 2**30  # largest file that is read, in bytes
HUGE = 1e15  # largest number in a target: its square, summed over many dimensions, is finite in float32
TOLERANCE = 0.25  # m/s: an expert further from its target velocity than this has missed it


class Experts(NamedTuple):
    """Recorded states of experts, each of which pursued a target velocity."""

    states: np.ndarray  # (expert · states each, observation)
    asked: np.ndarray  # target velocities (expert, velocity), in m/s
    achieved: np.ndarray  # mean velocities in the same shape
    steps: np.ndarray  # training steps when each was recorded
    fell: np.ndarray  # whether the body of each was unhealthy
    facts: dict[str, Any]  # command, seeds, steps, hardware

    @property
    def error(self) -> np.ndarray:
        """Distance of each expert's mean velocity from its target velocity, in m/s."""
        return np.linalg.norm(self.achieved - self.asked, axis=-1)

    @property
    def missed(self) -> np.ndarray:
        """Whether each expert fell, or was further than TOLERANCE from its target velocity."""
        return self.fell | (self.error > TOLERANCE)


def write(path: Path, experts: Experts) -> None:
    """Write experts to a .safetensors file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    arrays = {name: np.ascontiguousarray(getattr(experts, name), kind) for name, kind in ARRAYS.items()}
    atomic_write(path, save(arrays, {"facts": json.dumps(experts.facts)}))


def read(path: Path) -> Experts:
    """Returns the experts in a .safetensors file."""
    with safe_open(path, "numpy") as opened:
        arrays = (opened.get_tensor(name) for name in ARRAYS)
        return Experts(*arrays, json.loads((opened.metadata() or {}).get("facts", "{}")))


def shipped(env: str) -> Path | None:
    """Returns the file of target states that ships with the package for an environment, or None."""
    path = Path(str(files("vgcrl") / "data" / "targets" / f"{env}.safetensors"))
    return path if path.exists() else None


def quality(env: str) -> tuple[int, int]:
    """Returns how many of the shipped experts missed their target velocity, and how many experts there are."""
    path = shipped(env)
    missed = read(path).missed if path else np.zeros(0)
    return int(missed.sum()), len(missed)


def _rows(text: str) -> list[list[str]]:
    """Returns the rows of comma-separated values, without a header: a first row in which nothing is a number."""

    def number(x: str) -> bool:
        try:
            float(x)
        except ValueError:
            return False
        return True

    rows = [row for row in csv.reader(text.splitlines()) if row]
    return rows if not rows or any(map(number, rows[0])) else rows[1:]


def from_file(
    path: Path, width: int, shape: tuple[int, ...] | None = None, rows: Callable[[Any], Any] = lambda found: found
) -> Array:
    """Returns target states (target, `width`) from a .safetensors (as `vgcrl experts` writes it), .npy, .json or .csv
    file. States in the file may also have the environment's own `shape`, or be what `rows` of its EnvSpec takes."""
    readers: dict[str, Callable[[Path], Any]] = {
        ".safetensors": lambda p: load_file(p)["states"],
        ".npy": lambda p: np.load(p, allow_pickle=False),
        ".json": lambda p: json.loads(p.read_text(encoding="utf-8")),
        ".csv": lambda p: [[float(x) for x in row] for row in _rows(p.read_text("utf-8-sig"))],
    }
    valid = f"a .safetensors, .npy, .json or .csv file of {_rows_of(width)}"
    kind = path.suffix.lower()
    if kind not in readers:
        raise UsageError(f"--targets {path} has an unknown ending; valid: {valid}")
    if path.exists() and not (path.is_file() and path.stat().st_size <= LARGEST):
        raise UsageError(f"--targets {path} is no plain file of at most {LARGEST:,} bytes; valid: {valid}")
    try:
        found = rows(readers[kind](path))
    except UNREADABLE as error:
        raise UsageError(f"--targets {path} cannot be read: {error}; valid: {valid}") from None
    return from_rows(f"--targets {path}", found, width, shape, valid)


def _rows_of(width: int) -> str:
    return f"rows of {width} finite numbers"


def from_rows(what: str, given: Any, width: int, shape: tuple[int, ...] | None = None, valid: str = "") -> Array:
    """Returns target states (target, `width`) from any array of numbers, as `from_file` does. If it cannot, it raises
    UsageError, in which the input is called `what`."""
    check_unmasked(what, given)
    valid = valid or _rows_of(width)
    try:
        with np.errstate(over="ignore"):  # what is too large for float32 is not finite, see below
            found = np.asarray(given)
            if found.dtype.kind not in "biuf":
                raise TypeError(f"{found.dtype} are no numbers")
            targets = np.atleast_2d(found.astype(np.float32))
            if shape in (targets.shape, targets.shape[1:]):
                targets = targets.reshape(-1, width)
    except UNREADABLE as error:
        raise UsageError(f"{what} cannot be read: {error}; valid: {valid}") from None
    if targets.ndim != 2 or targets.shape[1] != width or not len(targets):
        raise UsageError(f"{what} holds {targets.shape} values; valid: {valid}")
    if not np.all(np.isfinite(targets)):
        raise UsageError(f"{what} holds a number that is not finite; valid: {valid}")
    if np.abs(targets).max() > HUGE:
        raise UsageError(f"{what} holds a number that is too large; valid: numbers up to {HUGE:g}")
    return jnp.asarray(targets)


def for_spec(env: str, spec: EnvSpec, most: int | None = None) -> Array | None:
    """Returns the shipped target states as the environment observes them, or None. If observations include places,
    these are drawn uniformly from their range."""
    states = default(env, spec.obs_dim - len(spec.place), most)
    if states is None or not spec.place:
        return states
    low, high = (np.array(side)[list(spec.place)] for side in (spec.low, spec.high))
    places = np.random.default_rng(0).uniform(low, high, (len(states), len(low)))
    return jnp.concatenate([jnp.asarray(places, jnp.float32), states], axis=1)


def default(env: str, width: int, most: int | None = None) -> Array | None:
    """Returns the shipped target states, at most `most`, equally many of each expert; None if none are shipped."""
    path = shipped(env)
    if path is None:
        return None
    states = from_file(path, width)
    if most is None or len(states) <= most:
        return states
    experts = len(read(path).asked)
    of_each = states.reshape(experts, -1, width)
    if most < experts:  # one state each of some experts
        return of_each[np.linspace(0, experts - 1, most).round().astype(int), 0]
    return of_each[:, : most // experts].reshape(-1, width)
