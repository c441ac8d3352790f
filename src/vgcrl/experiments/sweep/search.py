"""A search among combinations by Ray Tune: every trial is a program, the metric of its evaluations is reported.

To continue it needs no file of Tune's: combinations tried before come first again, and their runs on disk report at
once.
"""

import logging
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import optuna
import ray
from ray import tune
from ray.tune.schedulers import ASHAScheduler
from ray.tune.search import BasicVariantGenerator
from ray.tune.search.optuna import OptunaSearch

from vgcrl.errors import UsageError
from vgcrl.experiments.scheduling import Executor, Say, storage
from vgcrl.experiments.scheduling.cluster import RETRIES, OnRay, news, without_chatter
from vgcrl.experiments.scheduling.view import View
from vgcrl.experiments.scheduling.worker import Order
from vgcrl.experiments.sweep import trials
from vgcrl.experiments.sweep.ask import Ask, Range, varied
from vgcrl.experiments.sweep.grid import check_trials, own_folder
from vgcrl.experiments.sweep.results import higher_is_better
from vgcrl.experiments.sweep.trials import Values, trial, trial_name, tried, write_down
from vgcrl.training.config import Config
from vgcrl.training.fields import spoken
from vgcrl.training.signals import StopRequest, stop_requests

os.environ["TUNE_DISABLE_SIGINT_HANDLER"] = "1"  # a stop is heard of as in all commands
logging.getLogger("ray.tune").setLevel(logging.CRITICAL)  # a trial that dies is told in one line
optuna.logging.set_verbosity(optuna.logging.ERROR)


def domain(values: list[Any] | Range) -> Any:
    """Returns the values for Tune to draw from; an order of magnitude or more has a logarithmic scale."""
    if not isinstance(values, Range):
        return tune.choice([spoken(value) for value in values])
    low, high = values
    wide, whole = 0 < 10 * low <= high, isinstance(low, int) and isinstance(high, int)
    if whole:
        return tune.lograndint(low, high + 1) if wide else tune.randint(low, high + 1)
    return tune.loguniform(low, high) if wide else tune.uniform(low, high)


class Told(tune.Callback):
    """A callback of Tune's that writes down each combination, fetches its files, and shows how it went."""

    def __init__(self, ask: Ask, folder: Path, order: Order, board: Any, view: View, stopping: StopRequest):
        self._ask, self._folder, self._order, self._board = ask, folder, order, board
        self._view, self._stopping = view, stopping
        self.failed: list[str] = []

    def on_step_begin(self, iteration: int, trials: list[Any], **_: Any) -> None:
        if self._stopping():
            raise KeyboardInterrupt
        self._view.update(news(self._board))

    def on_trial_start(self, iteration: int, trials: list[Any], trial: Any, **_: Any) -> None:
        write_down(self._folder, trial.config)

    def on_trial_complete(self, iteration: int, trials: list[Any], trial: Any, **_: Any) -> None:
        name, last = trial_name(trial.config), trial.last_result
        if "fault" in last:
            self._fail(name, last["fault"])
        elif "step" in last:  # else another trial has the same values
            with self._stopping.saving:
                self._order._replace(name=name).fetch(whole=True)
            self._view.ended(name, "done", f"{self._ask.metric} {last[self._ask.metric]:.4g} at step {last['step']:,}")

    def on_trial_error(self, iteration: int, trials: list[Any], trial: Any, **_: Any) -> None:
        last = Path(trial.error_file).read_text(encoding="utf-8", errors="replace").strip().splitlines()[-1]
        self._fail(trial_name(trial.config), f"died {RETRIES + 1} times: {last}")

    def _fail(self, name: str, why: str) -> None:
        self.failed.append(f"{name}: {why}")
        self._view.ended(name, "failed", why)


def how_to_search(ask: Ask, config: Config, before: list[Values]) -> dict[str, Any]:
    """Returns options of `tune.run`.

    Its seed is the number of combinations tried before, so that a continued search does not draw them again.
    """
    mode = "max" if higher_is_better(ask.metric, [config]) else "min"
    out = {"metric": ask.metric, "mode": mode, "num_samples": ask.trials}
    if ask.search == "optuna":
        return out | {"search_alg": OptunaSearch(points_to_evaluate=before or None, seed=len(before))}
    out["search_alg"] = BasicVariantGenerator(points_to_evaluate=before or None, random_state=len(before))
    if ask.search == "asha":  # max_t is one more than the steps: ASHA must not end a program that still sends files
        eighth = max(1, config.steps // 8)
        out["scheduler"] = ASHAScheduler("step", max_t=config.steps + 1, grace_period=eighth, reduction_factor=2)
    return out


def search(ask: Ask, folder: Path, say: Say, execute: OnRay, config: Config) -> list[str]:
    space = {k: domain(ask.options[k]) for k in varied(ask.options)}
    before = tried(folder, set(space))
    fixed = {k: v for k, v in ask.options.items() if k not in space}
    order = execute.order("", tuple(ask._replace(options=fixed, metric="F", trials=None).command()), folder)
    board, place = execute.board(folder, say), f"{order.storage or order.folder}/.tune"
    with stop_requests() as stopping, without_chatter(), View([], say, ask.trials) as view:
        told = Told(ask, folder, order, board, view, stopping)
        try:
            tune.run(
                tune.with_parameters(trial, order=order, metric=ask.metric, board=board),
                config=space,
                **how_to_search(ask, config, before),
                resources_per_trial={"gpu": execute.share["num_gpus"], "cpu": execute.share["num_cpus"]},
                storage_path=place,
                max_failures=RETRIES,
                raise_on_failed_trial=False,
                callbacks=[told],
                trial_name_creator=lambda trial: trial_name(trial.config),
                trial_dirname_creator=lambda trial: trial.trial_id,
                verbose=0,
            )
        finally:
            with stopping.saving, suppress(OSError):
                for values in tried(folder):
                    order._replace(name=trial_name(values)).fetch(whole=False)
                system, path = storage.open_url(place)
                system.rm(path, recursive=True)
    return told.failed


def train_trials(ask: Ask, folder: Path, say: Say, execute: Executor) -> list[str]:
    """Trains up to the number of trials asked for, and returns a line for each that failed."""
    if not isinstance(execute, OnRay):
        raise UsageError("--trials is a search by Ray Tune; valid: --ray local or an address with it")
    config = check_trials(ask)
    ray.cloudpickle.register_pickle_by_value(trials)
    with own_folder(folder, ask):
        return search(ask, folder, say, execute, config)
