"""What a run writes beside its checkpoints: JSON lines, TensorBoard events, and a line or bar on the terminal."""

import json
import math
import os
import struct
import sys
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from vgcrl.errors import UsageError
from vgcrl.files import atomic_write


def to_json(value: Any) -> str:
    """Strict JSON: what is not a number is null."""

    def clean(x: Any) -> Any:
        if isinstance(x, dict):
            return {k: clean(v) for k, v in x.items()}
        if isinstance(x, (list, tuple)):
            return [clean(v) for v in x]
        return None if isinstance(x, float) and not math.isfinite(x) else x

    return json.dumps(clean(value), allow_nan=False)


def _whole_lines(path: Path) -> list[bytes]:
    """Without a last one that a kill cut off."""
    return path.read_bytes().split(b"\n")[:-1] if path.exists() else []


def _check_record(record: dict[str, Any]) -> None:
    """Steps, and of every run the numbers that their mean has."""
    step, mean = record["step"], record["mean"]
    if type(step) is not int or not record["seeds"] or not mean.keys() >= {"F", "log_q", "lgr_z", "lgr_s"}:
        raise ValueError("a line is no evaluation")
    for row in (mean, *record["seeds"]):
        wrong = [name for name in mean if not isinstance(row[name], (int, float, type(None)))]
        if wrong:
            raise ValueError(f"{wrong[0]!r} is no number")


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Records of evaluations."""
    try:
        lines = [json.loads(line) for line in _whole_lines(path)]
        for line in lines:
            _check_record(line)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UsageError(f"{path} is damaged: {error!r}; valid: lines of JSON as they were written") from None
    return lines


def truncate_lines(path: Path, step: int) -> None:
    """Drop what was written after the checkpoint a run goes on from, and a line cut off by a kill."""
    pairs = zip(_whole_lines(path), read_lines(path), strict=True)
    atomic_write(path, b"".join(line + b"\n" for line, record in pairs if record["step"] <= step))


def append_line(path: Path, record: dict[str, Any]) -> None:
    with path.open("a") as file:
        file.write(to_json(record) + "\n")
        file.flush()
        os.fsync(file.fileno())


def _crc32c_table() -> list[int]:
    table = []
    for n in range(256):
        for _ in range(8):
            n = (n >> 1) ^ (0x82F63B78 if n & 1 else 0)
        table.append(n)
    return table


_TABLE = _crc32c_table()


def _masked_crc(data: bytes) -> bytes:
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _TABLE[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    crc ^= 0xFFFFFFFF
    return struct.pack("<I", (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF)


def _varint(n: int) -> bytes:
    out = b""
    while n > 127:
        out, n = out + bytes([n & 127 | 128]), n >> 7
    return out + bytes([n])


def _bytes_field(number: int, data: bytes) -> bytes:
    return bytes([number << 3 | 2]) + _varint(len(data)) + data


class Events:
    """A TensorBoard event file of scalars: length-delimited protocol buffers, each with its checksum."""

    def __init__(self, folder: Path):
        folder.mkdir(parents=True, exist_ok=True)
        self._file = (folder / f"events.out.tfevents.{time.time_ns()}.vgcrl").open("ab")
        self._write(_bytes_field(3, b"brain.Event:2"))

    def _write(self, payload: bytes) -> None:
        event = b"\x09" + struct.pack("<d", time.time()) + payload
        length = struct.pack("<Q", len(event))
        self._file.write(length + _masked_crc(length) + event + _masked_crc(event))
        self._file.flush()

    def scalars(self, step: int, values: dict[str, float]) -> None:
        summary = b"".join(
            _bytes_field(1, _bytes_field(1, name.encode()) + b"\x15" + struct.pack("<f", value))
            for name, value in values.items()
        )
        self._write(b"\x10" + _varint(step) + _bytes_field(5, summary))

    def close(self) -> None:
        self._file.close()


class Display:
    """A bar on a terminal, a plain line per evaluation elsewhere; nothing where `quiet`."""

    def __init__(self, title: str, total: int, quiet: bool = False):
        self._console = Console(stderr=True)
        self._plain = not quiet and not self._console.is_terminal
        self._text, self._speed, self._total = "", 0.0, total
        self._bar = Progress(
            TextColumn(title),
            BarColumn(bar_width=10),
            TextColumn("{task.percentage:.0f}% {task.fields[text]}"),
            TimeRemainingColumn(),
            TextColumn("left"),
            console=self._console,
            disable=quiet or self._plain,
        )
        self._task = self._bar.add_task("", total=total, text="compiling")

    def __enter__(self) -> "Display":
        self._bar.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self._bar.stop()

    def advance(self, step: int, speed: float) -> None:
        self._speed = speed
        self._bar.update(self._task, completed=step, text=f"{speed:,.0f} steps/s {self._text}")

    def evaluated(self, step: int, mean: dict[str, float]) -> None:
        self._text = f"F {mean['F']:.2f} LGR(z) {mean['lgr_z']:.3f}"
        self._bar.update(self._task, completed=step, text=f"{self._speed:,.0f} steps/s {self._text}")
        if self._plain:
            left = max(0, self._total - step) / self._speed if self._speed else math.nan
            eta = f"{left:.0f} s left" if math.isfinite(left) else "starting"
            print(
                f"step {step:>9,}  {self._speed:>7,.0f} steps/s per run  {eta:>12}  {self._text}",
                file=sys.stderr,
                flush=True,
            )

    def note(self, text: str) -> None:
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)
