"""Log the evaluations of a run to Weights & Biases, beside the run's own files."""

import dataclasses
from typing import Any

from vgcrl.envs.contract import told
from vgcrl.errors import UsageError, install
from vgcrl.training.config import Config
from vgcrl.training.run_logs import finite, series
from vgcrl.training.summary import SUMMARISED


def _imported() -> Any:
    try:
        import wandb
    except ImportError:
        raise UsageError(f"--wandb needs wandb; valid: {install('wandb')}") from None
    if wandb.setup().settings.mode == "online" and not wandb.api.api_key:
        raise UsageError("--wandb needs a login; valid: `wandb login` first, or WANDB_MODE=offline")
    return wandb


def numbers(record: dict[str, Any], config: Config) -> dict[str, float]:
    """Returns means by name, and for each run its metrics as `RUN/...` and its training numbers as `RUN/train/...`."""
    out = finite(record["mean"])
    for name, row in zip(series(config), record["seeds"], strict=True):
        mine = {key: row[key] for key in SUMMARISED} | {f"train/{key}": x for key, x in row["train"].items()}
        out |= {f"{name}/{key}": x for key, x in finite(mine).items()}
    return out


class WandbLog:
    """A callback of training that logs evaluations.

    The run at Weights & Biases starts with the first evaluation, when the options have been found valid.
    """

    def __init__(self, project: str, config: Config):
        self._wandb, self._project, self._config, self._run = _imported(), project, config, None

    def __call__(self, record: dict[str, Any]) -> None:
        if self._run is None:
            name = f"{self._config.method}-{self._config.env}"
            facts = dataclasses.asdict(self._config)
            try:
                self._run = self._wandb.init(project=self._project, name=name, config=facts)
            except self._wandb.Error as error:
                raise UsageError(f"--wandb {self._project}: {told(error)}; valid: without it, then resume") from error
        self._run.log(numbers(record, self._config), step=record["step"])

    def close(self) -> None:
        if self._run is not None:
            self._run.finish()
