"""Folders crafted so that reading them might run code, show or overwrite other files, or never end."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from harness import Score, call, ending, in_order, stubs

CODE = "open({mark!r}, 'w').close()\n"


def _replaced(name: str, make: Callable[[Path, Path], None]) -> Callable[[Path, Path], None]:
    def craft(run: Path, outside: Path) -> None:
        path = run / name
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
        make(path, outside)

    return craft


def _code(name: str, env: str) -> Callable[[Path, Path], None]:
    """Python in or beside a run, and its configuration names it."""

    def craft(run: Path, outside: Path) -> None:
        path = run / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(CODE.format(mark=str(outside.parent / "executed")))
        config = json.loads((run / "config.json").read_text())
        (run / "config.json").write_text(json.dumps(config | {"env": env, "dims": None, "horizon": None}))

    return craft


def _result(**changes: Any) -> Callable[[Path, Path], None]:
    """An experiment's result that asks for other files, or holds what runs in a browser."""

    def craft(run: Path, outside: Path) -> None:
        page = {"title": "t", "claim": "c", "finding": "", "claims": [], "tables": {}, "figures": [], "programs": {}}
        text = json.dumps(page | {"hardware": "h", "command": "x"} | changes).replace("{outside}", str(outside))
        (run / "result.json").write_text(text)
        (run / "evil.svg").write_text("<svg><script>alert(1)</script></svg>")

    return craft


def _sparse(path: Path, _: Path) -> None:
    path.touch()
    os.truncate(path, 6 * 10**9)


FILES = ("config.json", "metrics.jsonl", "policy.safetensors", "checkpoints", "events", "report.html", ".lock")
CRAFTED: dict[str, Callable[[Path, Path], None]] = {
    **{f"{name} is a link": _replaced(name, lambda path, outside: path.symlink_to(outside)) for name in FILES},
    **{f"{name} is a pipe": _replaced(name, lambda path, _: os.mkfifo(path)) for name in FILES},
    **{f"{name} is sparse": _replaced(name, _sparse) for name in FILES[:3]},
    "config.json is deep": _replaced("config.json", lambda path, _: path.write_text(200_000 * "[") and None),
    "metrics.jsonl is /dev/zero": _replaced("metrics.jsonl", lambda path, _: path.symlink_to("/dev/zero")),
    "code in the run": _code("evil.py", "evil:X-v0"),
    "code as a package": _code("__init__.py", "crafted.x:X-v0"),
    "code beside the run": _code("../evil.py", "evil:X-v0"),
    "a picture elsewhere": _result(pictures={"p": "{outside}"}),
    "a picture above": _result(pictures={"p": "../outside/precious"}),
    "a drawing with a script": _result(figures=["evil"], claim="<script>alert(1)</script>"),
    "a title with a script": _result(title="<script>alert(1)</script>"),
}


def attack_folders(score: Score, run: Path, folder: Path) -> None:
    for name, craft in CRAFTED.items():
        for command in ("evaluate", "resume", "report"):
            here = folder / "craft"
            outside = here / "outside" / "precious"
            outside.parent.mkdir(parents=True)
            outside.write_text("a secret")
            copy = shutil.copytree(run, here / "crafted")
            craft(copy, outside)
            os.chdir(here)
            with stubs():
                end, said = call([command, str(copy)])
            report = copy / "report.html"
            shown = report.read_text() if report.is_file() and not report.is_symlink() else ""
            held = in_order(end, said) and outside.read_text() == "a secret" and not (here / "executed").exists()
            held &= sorted(p.name for p in outside.parent.iterdir()) in (["precious"], ["executed", "precious"])
            held &= "<script>alert" not in shown and "YSBzZWNyZXQ" not in shown and "a secret" not in shown
            score.count("crafted folders", held, f"{name}, {command}: {ending(end, said)}")
            os.chdir(folder)
            shutil.rmtree(here)
