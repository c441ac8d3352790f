"""metrics.jsonl: one line of JSON per evaluation, chained by digests so that an edited number is noticed."""

import hashlib
import json
import math
import os
from collections.abc import Generator
from pathlib import Path
from typing import Any

from vgcrl.errors import UsageError
from vgcrl.files import atomic_write, naming, open_to_read, open_to_write, read_small

LONGEST, LARGEST = 2**26, 2**32  # most bytes of a line, and of the file


def to_json(value: Any, indent: int | None = None) -> str:
    """Returns strict JSON, in which numbers that are not finite are null."""

    def clean(x: Any) -> Any:
        if isinstance(x, dict):
            return {k: clean(v) for k, v in x.items()}
        if isinstance(x, (list, tuple)):
            return [clean(v) for v in x]
        return None if isinstance(x, float) and not math.isfinite(x) else x

    return json.dumps(clean(value), allow_nan=False, indent=indent)


def _check_numbers(value: Any) -> None:
    """Raise ValueError if a number in a record, however deep, is not finite: such numbers are written as null."""
    for x in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        if isinstance(x, float) and not math.isfinite(x):
            raise ValueError("a number is not finite")
        _check_numbers(x)


def _check_record(record: dict[str, Any], runs: int | None) -> None:
    """Raise an error unless a record has its step, and for each of `runs` runs, if known, the numbers of the mean."""
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
        row["seed"], row["train"]["F"], row["posterior"].keys()
    _check_numbers(record)


def _digest(before: str, record: dict[str, Any]) -> str:
    """Returns the digest of a line and all lines before it, whose digest is `before`."""
    return hashlib.sha256((before + to_json(record)).encode()).hexdigest()[:16]


def _read_chain(path: Path, runs: int | None) -> Generator[tuple[bytes, dict[str, Any], str]]:
    """Yield the bytes, the record and the digest of every whole line. A last line that was cut off is left out.

    A file may begin with lines without digests, written by versions that had none.
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
    """Returns the records of evaluations, each checked against its digest and against `runs`, if given."""
    return [record for _, record, _ in _read_lines(path, runs)]


def truncate_lines(path: Path, step: int, runs: int | None = None) -> None:
    """Remove lines after `step`, that of the checkpoint a run goes on from, and a last line that was cut off."""
    atomic_write(path, b"".join(line for line, record, _ in _read_lines(path, runs) if record["step"] <= step))


def _last_line(path: Path) -> dict[str, Any]:
    """Returns the last line, or {} if there is none; only `read_lines` checks lines."""
    lines = read_small(path, LARGEST).splitlines() if path.exists() else []
    try:
        found = json.loads(lines[-1])
    except (IndexError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def last_step(path: Path) -> int:
    """Returns the step of the last evaluation, or -1 if there is none."""
    step = _last_line(path).get("step")
    return step if isinstance(step, int) else -1


def append_line(path: Path, record: dict[str, Any]) -> None:
    """Append a record, with a digest of it and of all lines before."""
    digest = _digest(str(_last_line(path).get("digest", "")), json.loads(to_json(record)))
    with naming(path), open_to_write(path, append=True) as file:
        file.write((to_json(record | {"digest": digest}) + "\n").encode())
        file.flush()
        os.fsync(file.fileno())
