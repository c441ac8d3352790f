"""Every option of the parser with values that are none."""

import os
import random
import shutil
from pathlib import Path

from harness import Score, call, ending, in_order, stubs

from vgcrl import cli


def odd_values(folder: Path) -> list[str]:
    """Texts, numbers and paths that nobody should give."""
    for name, make in {"pipe": os.mkfifo, "folder": os.mkdir}.items():
        make(folder / name)
    (folder / "link").symlink_to(folder / "nowhere")
    (folder / "loop").symlink_to(folder / "loop")
    (folder / "text").write_text("{")
    paths = [str(folder / name) for name in ("pipe", "folder", "link", "loop", "text", "text/below", "nowhere/x.npy")]
    texts = [
        "",
        " ",
        "--",
        "-",
        ",",
        "=",
        "a,b",
        "1,,2",
        "x" * 5000,
        "é𝒳\u202e",
        "\udcff",
        "../..",
        "/",
        "~",
        "%s{}$(id)",
    ]
    numbers = ["nan", "inf", "-inf", "-1", "0", "1e400", "-0.0", "1e-400", "9" * 400, "0x10", "1_0", "١٢", "1" * 5000]
    return paths + texts + numbers + ["1..0", "..", "1..", "nan..1", "true", "None", "[1]", "0,0", "1,nan"]


def _base(command: str, run: Path) -> list[str]:
    """Words that make a command complete, and cheap."""
    return {
        "train": [command],
        "experts": [command, "--env", "HalfCheetah"],
        "sweep": [command, "diayn", "--dry-run"],
        "reproduce": [command, "discrete", "--quick", "--dry-run"],
        "list": [command],
        "bench": [command],
    }.get(command, [command, str(run)])


def command_lines(run: Path, folder: Path, rng: random.Random) -> list[list[str]]:
    values, lines = odd_values(folder), []
    for command, made in cli.parser()._subparsers._group_actions[0].choices.items():  # ty: ignore
        base = _base(command, run)
        for action in made._actions:
            names = [o for o in action.option_strings if o.startswith("--")]
            if action.nargs == 0 or names == ["--help"]:
                continue
            for value in rng.sample(values, 4):
                lines.append([*base, f"{names[0]}={value}"] if names else [command, value])
        lines += [[*base, value] for value in rng.sample(values, 3)] + [[command], [*base, *base], [*base, "--nosuch"]]
    lines += [[value] for value in values]
    return [line for line in lines if line[:1] != ["list"] or len(line) > 1]


def attack_commands(score: Score, run: Path, folder: Path, rng: random.Random, times: float) -> None:
    inside = folder / "cwd"
    inside.mkdir()
    os.chdir(inside)
    lines = command_lines(run, folder, rng)
    for line in lines[: int(len(lines) * times)]:
        copy = shutil.copytree(run, folder / "copy") if str(run) in line else None
        words = [str(copy) if word == str(run) else word for word in line]
        with stubs():
            end, said = call(words)
        score.count("command lines", in_order(end, said), f"{[w[:60] for w in words]}: {ending(end, said)}")
        if copy:
            shutil.rmtree(copy)
