"""A search among combinations by Ray Tune: every trial is a program, the metric of its evaluations is reported.

It goes on where it was stopped without any file of Tune's: combinations tried before come first again, and the runs
they have on disk answer at once.
"""

import json
import shutil
from pathlib import Path
from typing import Any

from ray import tune
from ray.tune.schedulers import ASHAScheduler
from ray.tune.search import BasicVariantGenerator
from ray.tune.search.optuna import OptunaSearch

from vgcrl.errors import UsageError
from vgcrl.experiments.scheduling import Executor, Say, Task, worker
from vgcrl.experiments.scheduling.cluster import RETRIES, OnRay, without_chatter
from vgcrl.experiments.sweep.ask import Ask, Range, varied
from vgcrl.experiments.sweep.grid import check_same, resolved
from vgcrl.experiments.sweep.results import higher_is_better
from vgcrl.experiments.sweep.trials import TRIALS, tried
from vgcrl.training.config import KNOBS, Config


def domain(values: list[Any] | Range) -> Any:
    """By orders of magnitude where a range has one or more."""
    if not isinstance(values, Range):
        return tune.choice(values)
    low, high = values
    wide, whole = 0 < 10 * low <= high, isinstance(low, int) and isinstance(high, int)
    if whole:
        return tune.lograndint(low, high + 1) if wide else tune.randint(low, high + 1)
    return tune.loguniform(low, high) if wide else tune.uniform(low, high)


class Told(tune.Callback):
    """Writes down what is tried, and says how it went."""

    def __init__(self, folder: Path, ask: Ask, say: Say):
        self._folder, self._ask, self._say, self._ended = folder, ask, say, 0

    def on_trial_start(self, iteration: int, trials: list[Any], trial: Any, **_: Any) -> None:
        values = worker.rounded(trial.config)
        self._say(f"{worker.trial_name(values)}: starts")
        if values not in tried(self._folder):
            with (self._folder / TRIALS).open("a") as file:
                file.write(json.dumps(values) + "\n")

    def on_trial_complete(self, iteration: int, trials: list[Any], trial: Any, **_: Any) -> None:
        self._ended += 1
        value, step = (trial.last_result.get(key) for key in (self._ask.metric, "step"))
        name = worker.trial_name(worker.rounded(trial.config))
        self._say(f"[{self._ended}/{self._ask.trials}] {name}: {self._ask.metric} {value:.4g} at step {step:,}")


def middle(ask: Ask) -> Config:
    """Some combination, to be checked before anything starts."""
    values = {k: v[0] for k, v in ask.options.items()}
    return resolved({k: (v,) if k in KNOBS else v for k, v in values.items()}, [])[1]


def tuner(ask: Ask, folder: Path, say: Say, execute: OnRay, config: Config) -> tune.Tuner:
    mode = "max" if higher_is_better(ask.metric, [config]) else "min"
    space, before = {k: domain(ask.options[k]) for k in varied(ask.options)}, tried(folder)
    searcher: Any = (
        OptunaSearch(metric=ask.metric, mode=mode, points_to_evaluate=before or None, seed=len(before))
        if ask.search == "optuna"
        else BasicVariantGenerator(points_to_evaluate=before or None, random_state=len(before))
    )
    halving = ASHAScheduler("step", max_t=config.steps, grace_period=max(1, config.steps // 8), reduction_factor=2)
    fixed = {k: v for k, v in ask.options.items() if k not in space}
    words = ask._replace(options=fixed, metric="F", trials=None).command()
    order = execute.order(Task("", lambda: None, tuple(words)), folder)
    share = execute.share()
    trainable = tune.with_parameters(worker.trial, order=order, metric=ask.metric)
    return tune.Tuner(
        tune.with_resources(trainable, {"GPU": share["num_gpus"], "CPU": share["num_cpus"]}),
        param_space=space,
        tune_config=tune.TuneConfig(
            metric=ask.metric,
            mode=mode,
            num_samples=ask.trials or 1,
            search_alg=searcher,
            scheduler=halving if ask.search == "asha" else None,
        ),
        run_config=tune.RunConfig(
            name="tune",
            storage_path=order.storage or str((folder / ".tune").resolve()),
            failure_config=tune.FailureConfig(max_failures=RETRIES),
            callbacks=[Told(folder, ask, say)],
            verbose=0,
        ),
    )


def train_trials(ask: Ask, folder: Path, say: Say, execute: Executor) -> list[str]:
    """Up to the number of trials asked for; a line for each that failed."""
    if not isinstance(execute, OnRay):
        raise UsageError("--trials is a search by Ray Tune; valid: --ray local or an address with it")
    if "method" in varied(ask.options):
        raise UsageError("METHOD has several values; valid with --trials: one")
    config = middle(ask)
    check_same(folder, ask)
    execute.check(folder)
    try:
        with without_chatter():
            results = tuner(ask, folder, say, execute, config).fit()
    finally:
        shutil.rmtree(folder / ".tune", ignore_errors=True)
    if len(tried(folder)) < (ask.trials or 0):
        raise KeyboardInterrupt
    return [f"{worker.trial_name(each.config)}: {each.error}" for each in results if each.error]
