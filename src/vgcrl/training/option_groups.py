"""Options in the groups that `vgcrl train --help` shows, and their default values."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from vgcrl.training.config import DEFAULTS, FIELDS, KNOBS
from vgcrl.training.fields import HelpLine, described, help_of, kind_of, spoken
from vgcrl.training.options import Options
from vgcrl.training.resolve import resolve

GROUPS = {
    "environment": (
        *("env", "env_arg", "engine", "envs", "horizon", "positions", "terminate", "alive_bonus", "physics", "workers"),
        *("dims", "wind", "projection_dim", "projection_seed"),
    ),
    "method": (
        *("method", "goal_dim", "features", "posterior", "posterior_features", "sigma", "components", "spectral_norm"),
        *("relabel", "relabel_fraction", "relabel_state", "relative_goals", "goal_range", "goal_steps"),
        *("reward", "critic", "gpi"),
    ),
    "learning": (
        *("steps", "seeds", "seed", "hidden", "encoder", "inputs", "batch", "learning_rate", "posterior_learning_rate"),
        *("discount", "target_rate", "initial_alpha", "target_entropy", "updates_per_step", "random_steps", "replay"),
    ),
    "evaluation": ("evaluate_every", "evaluate_episodes", "checkpoint_every", "log_every"),
}


def values_for(given: Options) -> dict[str, Any]:
    """Returns the value of every option in a run with the given options."""
    return dataclasses.asdict(resolve(given))


def help_lines(usual: Mapping[str, Any]) -> dict[str, list[HelpLine]]:
    """Returns a line for every option, by group; `usual` are the default values to show."""
    values = DEFAULTS | dict(usual)
    return {title: [_line(name, values.get(name)) for name in names] for title, names in GROUPS.items()}


def _line(name: str, value: Any) -> HelpLine:
    help = help_of(FIELDS[name]) + ("" if value is None else f" [{brief(value)}]")
    usual = "yes|no" if kind_of(FIELDS[name]).each is bool else name.split("_")[-1].upper()
    return HelpLine(name, described(FIELDS[name]).metavar or usual, help + (" (knob)" if name in KNOBS else ""))


def _rounded(value: Any) -> Any:
    """Returns a value without the rounding errors of a product of rates."""
    if isinstance(value, tuple):
        return tuple(map(_rounded, value))
    return float(f"{value:.6g}") if isinstance(value, float) else value


def brief(value: Any) -> str:
    """Returns a value as on the command line, a long list shortened to its first and last value."""
    text = spoken(_rounded(value))
    return text if len(text) <= 30 else f"{text[:6]}…{text[text.rindex(',') :]}" if "," in text else text
