"""Policies that ship with the package: each is a run folder without checkpoints, and a card that says what it is.

`data/policies/NAME/` has config.json and policy.safetensors of one seed, as `vgcrl train` writes them, and card.json:
what the policy does, the command that trained it, steps, and what was measured. `ship` makes such a folder from a run.
"""

import dataclasses
import json
import shlex
from importlib.resources import files
from pathlib import Path
from typing import Any

import jax

from vgcrl.errors import UsageError, hint
from vgcrl.files import as_path, atomic_write
from vgcrl.training import policy_file, trainer
from vgcrl.training.config import FIELDS, Config
from vgcrl.training.fields import words_of
from vgcrl.training.logs import read_lines
from vgcrl.training.options import Options
from vgcrl.training.program import policy
from vgcrl.training.resolve import resolve
from vgcrl.training.run_folder import write_config
from vgcrl.use.evaluate import evaluate_run

SHIPPED = Path(str(files("vgcrl") / "data" / "policies"))
MEASURED = ("F", "log_q", "lgr_z", "spread_v", "coverage", "success")  # metrics on a card


def names() -> list[str]:
    """Returns the names of all policies that ship with the package."""
    return sorted(path.parent.name for path in SHIPPED.glob("*/card.json"))


def card(name: str) -> dict[str, Any]:
    """Returns the card of a policy.

    It has about, command, steps, seed, hardware, and `measured`, the last evaluation of that seed. For a policy that is
    meant to act with noise, `noise` is true and `with_noise` was measured with it.
    """
    return json.loads((SHIPPED / name / "card.json").read_text(encoding="utf-8"))


def metrics_of(card: dict[str, Any]) -> dict[str, float]:
    """Returns what was measured of a policy when it acts as it is meant to."""
    return card["with_noise"] if card.get("noise") else card["measured"]


def meant_with_noise(folder: Path) -> bool:
    """Returns whether a policy is meant to act with noise, according to its card; a run has none, and acts without."""
    return is_shipped(folder) and card(folder.name).get("noise", False)


def folder_of(run: str | Path) -> Path:
    """Returns the folder of a run, or if there is no such folder that of a policy that ships with the package."""
    path = as_path("run", run)
    if path.exists() or path.parent != Path("."):
        return path
    if str(run) in names():
        return SHIPPED / str(run)
    near = hint(str(run), names())
    raise UsageError(f"{run} is neither a folder nor a policy{near}; valid: a run folder, or {', '.join(names())}")


def is_shipped(folder: Path) -> bool:
    return folder.parent == SHIPPED


def train_command(config: Config) -> str:
    """Returns the command that asks for a configuration, without options that have their default."""
    asked = {k: getattr(config, k) for k in ("env", "steps")}
    usual = resolve(Options(method=config.method, **asked))
    if config.positions != usual.positions:  # other defaults depend on it
        asked["positions"] = config.positions
        usual = resolve(Options(method=config.method, **asked))
    rest = [name for name in FIELDS if name not in ("method", "engine", *asked)]
    asked |= {k: getattr(config, k) for k in rest if getattr(config, k) != getattr(usual, k)}
    return shlex.join(["vgcrl", "train", config.method, *(word for k, v in asked.items() for word in words_of(k, v))])


def _numbers(row: dict[str, Any]) -> dict[str, float]:
    return {k: row[k] for k in MEASURED if row.get(k) is not None}


def ship(run: Path, name: str, about: str, seed: int | None = None, into: Path = SHIPPED, noise: bool = False) -> Path:
    """Make a folder to ship from one seed of a run, by default the one with the best F at the last evaluation.

    `noise` says that the policy is meant to act with noise.
    """
    program, runs, counters = trainer.restore(run, print)
    config, lines = program.config, read_lines(run / "metrics.jsonl")
    if config.swept or not lines:
        raise UsageError(f"{run} cannot be shipped; valid: a run of one setting that was evaluated")
    rows = lines[-1]["seeds"]
    chosen = max(rows, key=lambda row: row["F"]) if seed is None else next(r for r in rows if r["seed"] == seed)
    index, out = rows.index(chosen), into / name
    one = dataclasses.replace(config, seeds=1, seed=chosen["seed"])
    out.mkdir(parents=True, exist_ok=True)
    write_config(out, one)
    kept = policy(config, runs)
    best = jax.tree.map(lambda x: x[index : index + 1], kept)
    policy_file.save(out, counters["step"], best, counters, config=one.to_json())
    facts = {
        "about": about,
        "command": train_command(config),
        "method": config.method,
        "env": config.env,
        "steps": counters["step"],
        "seed": chosen["seed"],
        "hardware": lines[-1].get("hardware"),
        "noise": noise,
        "measured": _numbers(chosen),
    }
    if noise:
        facts["with_noise"] = _numbers(evaluate_run(out, None, None, print, noise=True)["seeds"][0])
    atomic_write(out / "card.json", json.dumps(facts, indent=2) + "\n")
    return out
