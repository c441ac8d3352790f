"""The files of a run with bits flipped, cut, doubled or replaced."""

import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path

from harness import Score, call, ending, in_order, stubs

from vgcrl.training.logs import read_lines

DAMAGES: dict[str, Callable[[bytes, random.Random], bytes]] = {
    "a bit": lambda data, rng: _flip(data, rng.randrange(len(data)), 1 << rng.randrange(8)),
    "a byte": lambda data, rng: _flip(data, rng.randrange(len(data)), rng.randrange(1, 256)),
    "a bit of the head": lambda data, rng: _flip(data, rng.randrange(min(200, len(data))), 1 << rng.randrange(8)),
    "cut": lambda data, rng: data[: rng.randrange(len(data))],
    "a piece missing": lambda data, rng: _without(data, rng.randrange(len(data)), rng.randrange(1, 64)),
    "longer": lambda data, rng: data + rng.randbytes(rng.randrange(1, 64)),
    "noise": lambda data, rng: rng.randbytes(rng.randrange(0, 4096)),
    "zeros": lambda data, rng: bytes(len(data)),
    "twice": lambda data, rng: data + data,
}


def _flip(data: bytes, place: int, bits: int) -> bytes:
    return data[:place] + bytes([data[place] ^ bits]) + data[place + 1 :]


def _without(data: bytes, place: int, count: int) -> bytes:
    return data[:place] + data[place + count :]


def _same_meaning(name: str, one: Path, other: Path) -> bool:
    """Whether a damaged file still says what it said, or is as a kill may leave it: lines at the end are missing."""
    try:
        if name == "config.json":
            return json.loads(one.read_bytes()) == json.loads(other.read_bytes())
        if name == "metrics.jsonl":
            lines = read_lines(other)
            return read_lines(one)[: len(lines)] == lines
    except ValueError:
        return False
    if name.endswith("sha256"):
        return one.read_text(encoding="utf-8").strip() == other.read_bytes().decode("utf-8", "replace").strip()
    return one.read_bytes() == other.read_bytes()


def attack_files(score: Score, run: Path, folder: Path, rng: random.Random, times: float) -> None:
    newest = max(path.name for path in (run / "checkpoints").iterdir())
    commands = {
        "config.json": ("evaluate", "resume", "report"),
        "metrics.jsonl": ("resume", "report"),
        "policy.safetensors": ("evaluate",),
        f"checkpoints/{newest}/state.safetensors": ("resume",),
        f"checkpoints/{newest}/sha256": ("resume",),
    }
    for name, readers in commands.items():
        for i in range(int(5 * times) or 1):
            for damage, change in DAMAGES.items():
                copy = shutil.copytree(run, folder / "damaged")
                file = copy / name
                file.write_bytes(change(file.read_bytes(), rng))
                with stubs():
                    end, said = call([rng.choice(readers), str(copy)])
                noticed = end == 2 or "damaged" in said or "config.json has" in said
                held = in_order(end, said) and (noticed or _same_meaning(name, run / name, file))
                score.count("damaged files", held, f"{name}, {damage} ({i}): {ending(end, said)}")
                shutil.rmtree(copy)
