"""Signals at a file operation of a run that is trained; then it goes on, and ends as if nothing had been."""

import os
import random
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from harness import TRAIN, Score, call, ending
from safetensors.numpy import load_file

from vgcrl.training.logs import read_lines

_at: tuple[str, int, Callable[[], None]] | None = None
_events = 0


def hear(event: str, given: tuple[Any, ...]) -> None:
    """An audit hook: counts what is done to files of a run, and acts at one of them."""
    global _events
    if _at and event in ("open", "os.rename", "os.mkdir", "os.remove", "os.rmdir") and _at[0] in str(given[0]):
        _events += 1
        if _events == _at[1]:
            _at[2]()


def trained(out: Path, event: int, act: Callable[[], None]) -> tuple[Any, str, int]:
    """`vgcrl train`, in which `act` is called at the given file operation; and how many there were."""
    global _at, _events
    _at, _events = (str(out), event, act), 0
    try:
        return *call(["train", "--out", str(out), *TRAIN]), _events
    finally:
        _at = None


def killed(out: Path, event: int) -> int:
    """In a process of its own, forked before JAX has threads; how it ended, by wait's status."""
    if not (child := os.fork()):
        trained(out, event, lambda: os.kill(os.getpid(), signal.SIGKILL))
        os._exit(0)
    return os.waitpid(child, 0)[1]


def _equal(one: Path, other: Path) -> bool:
    """Last checkpoint and all metrics, to the bit, but for the time it took."""
    files = [max((run / "checkpoints").iterdir()) / "state.safetensors" for run in (one, other)]
    a, b = map(load_file, files)
    lines = [[{**line, "wall": 0} for line in read_lines(run / "metrics.jsonl")] for run in (one, other)]
    same = a.keys() == b.keys() and all(np.array_equal(a[k], b[k], equal_nan=True) for k in a)
    return same and files[0].parent.name == files[1].parent.name and lines[0] == lines[1]


def gone_on(out: Path) -> tuple[Any, str]:
    """Resumed; or trained, where nothing had been saved and the command says so."""
    end, said = call(["resume", str(out)])
    if end == 2 and (not out.exists() or "nothing was saved" in said or not any(out.iterdir())):
        return call(["train", "--out", str(out), *TRAIN])
    return end, said


def forked_kills(folder: Path, rng: random.Random, times: float) -> list[Path]:
    """Folders of runs that were killed; before JAX is started here."""
    counted = folder / "counted"
    if not (child := os.fork()):
        (folder / "events").write_text(str(trained(counted, 0, lambda: None)[2]))
        os._exit(0)
    os.waitpid(child, 0)
    total, out = int((folder / "events").read_text()), []
    for i in range(int(24 * times)):
        out.append(folder / f"killed-{i}")
        assert os.WIFSIGNALED(killed(out[-1], rng.randrange(1, total + 1)))
    return out


def attack_runs(score: Score, run: Path, dead: list[Path], folder: Path, rng: random.Random, times: float) -> None:
    for out in dead:
        end, said = gone_on(out)
        score.count("SIGKILL", end == 0 and _equal(run, out), f"{out.name}: {ending(end, said)}")
    total = int((folder / "events").read_text())
    for number in (signal.SIGINT, signal.SIGTERM):
        for i in range(int(10 * times)):
            out, event = folder / f"{number.name}-{i}", rng.randrange(1, total + 1)
            before = signal.signal(signal.SIGTERM, signal.default_int_handler)
            end, said, _ = trained(out, event, lambda number=number: os.kill(os.getpid(), number))
            signal.signal(signal.SIGTERM, before)
            what = f"at event {event}: {ending(end, said)}"
            held = end in (0, 130) and "Traceback" not in said
            end, said = gone_on(out)
            score.count(number.name, held and end == 0 and _equal(run, out), f"{what}; then {ending(end, said)}")
