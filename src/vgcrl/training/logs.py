"""metrics.jsonl: a line of JSON for each evaluation, chained by digests so that an edited number is noticed."""

import hashlib
import json
import math
import os
from collections.abc import Generator
from pathlib import Path
from typing import Any

from vgcrl.errors import UsageError
from vgcrl.files import atomic_write, naming, open_to_read, open_to_write, read_small

LONGEST, LARGEST = 2**26, 2**32  # bytes of a line, and of all


def to_json(value: Any, indent: int | None = None) -> str:
    """Strict JSON: what is not a number is null."""

    def clean(x: Any) -> Any:
        if isinstance(x, dict):
            return {k: clean(v) for k, v in x.items()}
        if isinstance(x, (list, tuple)):
            return [clean(v) for v in x]
        return None if isinstance(x, float) and not math.isfinite(x) else x

    return json.dumps(clean(value), allow_nan=False, indent=indent)


def _check_numbers(value: Any) -> None:
    """Of a record, however deep: what is not a number was written as null."""
    for x in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        if isinstance(x, float) and not math.isfinite(x):
            raise ValueError("a number is not finite")
        _check_numbers(x)


def _check_record(record: dict[str, Any], runs: int | None) -> None:
    """Steps, and of every run the numbers that their mean has; of so many runs, where that is known."""
    step, mean = record["step"], record["mean"]
    if runs not in (None, len(record["seeds"])):
        raise ValueError(f"a line is of {len(record['seeds'])} runs, config.json of {runs}")
    if type(step) is not int or not record["seeds"] or not mean.keys() >= {"F", "log_q", "lgr_z", "lgr_s"}:
        raise ValueError("a line is no evaluation")
    for group in (record, *record.get("settings", ())):
        if not group["ci95"].keys() >= group["mean"].keys():
            raise KeyError("ci95")
    for row in (mean, *record["seeds"]):
        wrong = [name for name in mean if not isinstance(row[name], (int, float, type(None)))]
        if wrong:
            raise ValueError(f"{wrong[0]!r} is no number")
    for row in record["seeds"]:
        row["seed"], row["train"].keys(), row["posterior"].keys()
    _check_numbers(record)


def _digest(before: str, record: dict[str, Any]) -> str:
    """Of a line and all before it."""
    return hashlib.sha256((before + to_json(record)).encode()).hexdigest()[:16]


def _read_chain(path: Path, runs: int | None) -> Generator[tuple[bytes, dict[str, Any], str]]:
    """Every whole line: its bytes, its record, its digest. A last line that a kill cut off is left out.

    A file may begin with lines without digests, from before there were any.
    """
    before = ""
    with open_to_read(path) as file:
        while (line := file.readline(LONGEST + 1)).endswith(b"\n"):
            record = json.loads(line)
            written = record.pop("digest", "")
            if written != (_digest(before, record) if written or before else ""):
                raise ValueError(f"the line of step {record.get('step')!r}, or one before it, is not as it was written")
            _check_record(record, runs)
            before = written
            yield line, record, written
    if len(line) > LONGEST:
        raise ValueError(f"a line has more than {LONGEST:,} bytes")


def _read_lines(path: Path, runs: int | None = None) -> list[tuple[bytes, dict[str, Any], str]]:
    try:
        return list(_read_chain(path, runs))
    except FileNotFoundError:
        return []
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise UsageError(f"{path} is damaged: {error!r}; valid: lines of JSON as they were written") from None


def read_lines(path: Path, runs: int | None = None) -> list[dict[str, Any]]:
    """Records of evaluations, each checked against its digest, and against the number of runs where it is told."""
    return [record for _, record, _ in _read_lines(path, runs)]


def truncate_lines(path: Path, step: int, runs: int | None = None) -> None:
    """Drop what was written after the checkpoint a run goes on from, and a line cut off by a kill."""
    atomic_write(path, b"".join(line for line, record, _ in _read_lines(path, runs) if record["step"] <= step))


def _last_line(path: Path) -> dict[str, Any]:
    """Whatever it is: `read_lines` is who checks."""
    lines = read_small(path, LARGEST).splitlines() if path.exists() else []
    try:
        found = json.loads(lines[-1])
    except (IndexError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def last_step(path: Path) -> int:
    """Of the last evaluation; -1 where there is none."""
    step = _last_line(path).get("step")
    return step if isinstance(step, int) else -1


def append_line(path: Path, record: dict[str, Any]) -> None:
    """With a digest of it and of all lines before, by which an edited number is noticed."""
    digest = _digest(str(_last_line(path).get("digest", "")), json.loads(to_json(record)))
    with naming(path), open_to_write(path, append=True) as file:
        file.write((to_json(record | {"digest": digest}) + "\n").encode())
        file.flush()
        os.fsync(file.fileno())
