"""TensorBoard events of a run folder: means over runs, and a series for each run.

`events/` has the means over runs, `events/seed-0/` and the like one run each. Both have the metrics of evaluations, and
as `train/...` what updates report (losses, α, entropy, F on replay), every `--log-every` steps.
"""

import math
from pathlib import Path
from typing import Any

import numpy as np

from vgcrl.training.config import Config
from vgcrl.training.events import Events
from vgcrl.training.fields import digits
from vgcrl.training.summary import SUMMARISED

MOST = 64  # most runs with a series each; if there are more, only the mean is written


def finite(values: dict[str, Any]) -> dict[str, float]:
    """Returns the values that are finite numbers."""
    return {name: x for name, x in values.items() if x is not None and math.isfinite(x)}


def series(config: Config) -> list[str]:
    """Returns a name for each run: its seed, and the knobs that differ."""
    seeds = range(config.seed, config.seed + config.seeds)
    knobs = ["".join(f"{name}-{digits(setting[name])}-" for name in config.swept) for setting in config.settings]
    return [f"{knob}seed-{seed}" for knob in knobs for seed in seeds]


class RunLogs:
    """The writer of a run's TensorBoard events, from step `begin` on."""

    def __init__(self, folder: Path, config: Config, begin: int):
        names = series(config)
        self._mean = Events(folder)
        self._each = [Events(folder / name) for name in names] if len(names) <= MOST else []
        for events in (self._mean, *self._each):
            events.begin(begin)
        self._begins = max(config.random_steps, config.batch)  # steps before learning begins

    def evaluation(self, record: dict[str, Any]) -> None:
        """Write the metrics of an evaluation."""
        self._mean.scalars(record["step"], finite(record["mean"]))
        rows = record["seeds"][: len(self._each)]
        for events, row in zip(self._each, rows, strict=True):
            events.scalars(record["step"], finite({name: row[name] for name in SUMMARISED}))

    def training(self, step: int, info: dict[str, Any]) -> None:
        """Write what the latest update of each run reported, (run,) each."""
        if step <= self._begins:
            return
        told = {f"train/{name}": np.asarray(x) for name, x in info.items()}
        self._mean.scalars(step, finite({name: float(np.mean(x)) for name, x in told.items()}))
        for r, events in enumerate(self._each):
            events.scalars(step, finite({name: float(x[r]) for name, x in told.items()}))

    def close(self) -> None:
        for events in (self._mean, *self._each):
            events.close()
