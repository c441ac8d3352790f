"""Use from Python: make an environment, train, resume, evaluate, load a policy."""

import os
import sys
from pathlib import Path
from typing import Any, Unpack

from vgcrl.envs import find, gymnasium_engine, modules
from vgcrl.errors import UsageError
from vgcrl.files import as_path
from vgcrl.training import trainer
from vgcrl.training.fields import flag, spoken
from vgcrl.training.loop import Callback
from vgcrl.training.resolve import resolve
from vgcrl.training.run_folder import Run, read_config
from vgcrl.use.callbacks import watching
from vgcrl.use.evaluate import evaluate_run
from vgcrl.use.given import TrainOptions, plain_number, spelled_out, to_options
from vgcrl.use.policies import folder_of, meant_with_noise
from vgcrl.use.policy import Policy, policy_of


@spelled_out
def make(env: Any = "pointmass", *, env_kwargs: dict[str, Any] | None = None, **options: Unpack[TrainOptions]) -> Any:
    """Returns an environment: an `Env` of JAX functions, or, if its engine runs on the host, a Gymnasium environment.

    Args:
        env: as in `train`.
        env_kwargs: arguments of that environment.
        options: those of the environment, as `vgcrl list envs` shows them, and `engine`.

    Examples:
        >>> env = vgcrl.make("windy-pointmass", dims=2, wind=(40, 0))
    """
    given = to_options({"env": "pointmass" if env is None else env, "env_kwargs": env_kwargs, **options})
    valid = ("env_kwargs", "env_arg", "engine", *find(given["env"]).options)
    for name in (name for name in options if name not in valid):
        raise UsageError(f"make takes no {name}; valid for {given['env']}: {', '.join(valid)}")
    config = resolve(given)
    for name in config.swept:
        raise UsageError(
            f"{flag(name)} {spoken(getattr(config, name))}: make returns one environment; valid: one value"
        )
    if config.native:
        return config.build_env()
    choices = config.horizon, bool(config.terminate), bool(config.positions), config.env_arg or ()
    return gymnasium_engine.single(config.env, *choices)


@spelled_out
def train(
    method: str = "diayn",
    *,
    env: Any = "pointmass",
    env_kwargs: dict[str, Any] | None = None,
    steps: int | None = None,
    seeds: int | None = None,
    out: str | Path | None = None,
    quiet: bool = True,
    callback: Callback | None = None,
    stop_when: str | None = None,
    wandb: str | None = None,
    **options: Unpack[TrainOptions],
) -> Run:
    """Trains a method and saves it in a run folder.

    Args:
        method: a name of `vgcrl list methods`.
        env: a name of `vgcrl list envs`, any Gymnasium id, a class, a function that makes one, or what gymnasium.make
            returned.
        env_kwargs: arguments of that environment.
        steps: environment steps of each run; the default depends on the environment.
        seeds: number of seeds, trained together; by default 3.
        out: the run folder, which must be new or empty; by default runs/METHOD-ENV.
        quiet: show no progress, only warnings.
        callback: called at every evaluation with its record, a dict with step, wall (seconds), seeds, mean and ci95; if
            it returns True, training stops and is saved, and `resume` continues it.
        stop_when: a bound on a metric that stops training in the same way, e.g. "lgr_z>=0.95".
        wandb: a project of Weights & Biases to log to as well.
        options: those of `vgcrl train`, with underscores. A knob takes one number, or several, which are trained
            together.

    Examples:
        >>> run = vgcrl.train("gcrl", env="pointmass", steps=50_000, seeds=2, relabel="her")
        >>> run.last["mean"]["lgr_z"]
    """
    given = {"method": method, "env": env, "env_kwargs": env_kwargs, "steps": steps, "seeds": seeds, **options}
    asked, folder = to_options(given), None if out is None else as_path("out", out)
    with watching(lambda: resolve(asked), callback=callback, stop=stop_when, wandb=wandb) as watch:
        return trainer.start(asked, folder, quiet=quiet, callback=watch)


def resume(
    run: str | Path,
    steps: int | None = None,
    *,
    quiet: bool = True,
    callback: Callback | None = None,
    stop_when: str | None = None,
    wandb: str | None = None,
) -> Run:
    """Continues a run folder that was stopped or killed, to the steps first asked for or to `steps` in all.

    The other arguments are those of `train`. Where a bound holds already, nothing is trained. Weights & Biases shows a
    new run.

    Examples:
        >>> vgcrl.resume("runs/gcrl-pointmass", steps=100_000)
    """
    modules.import_plugins()
    folder = as_path("run", run)
    with watching(lambda: read_config(folder), callback=callback, stop=stop_when, wandb=wandb) as watch:
        return trainer.resume(folder, plain_number(steps, int), quiet=quiet, callback=watch, reached=watch.reached)


def evaluate(
    run: str | Path, *, episodes: int | None = None, targets: Any = None, noise: bool = False
) -> dict[str, Any]:
    """Returns the metrics of a run folder, as `vgcrl evaluate --json` prints them; episodes are the same at every call.

    Args:
        run: the run folder, or the name of a policy that comes with the package.
        episodes: number of episodes of each run; by default that of the evaluations in training.
        targets: target states for LGR(s): an array (target, observation), or a file of one.
        noise: act by samples of the policy, as in training, instead of by its mode.

    Examples:
        >>> vgcrl.evaluate("runs/gcrl-pointmass", episodes=200)["mean"]["lgr_s"]
    """
    modules.import_plugins()
    given = Path(targets) if isinstance(targets, (str, os.PathLike)) else targets
    return evaluate_run(folder_of(run), episodes, given, _say, noise)


def _say(text: str) -> None:
    print(text, file=sys.stderr)


def load(run: str | Path, seed: int | None = None, setting: int | None = None) -> Policy:
    """Returns the policy of one seed of a run folder, by default the first.

    If several settings were trained together, `setting` chooses one, counted from 0. `run` may also be the name of a
    policy that comes with the package: see `vgcrl list policies`. If the environment is your own and not installed,
    import its module first.

    Examples:
        >>> policy = vgcrl.load("runs/gcrl-pointmass", seed=1)
        >>> policy.act(obs, goal_state=target)
    """
    modules.import_plugins()
    folder = folder_of(run)
    program, runs, _ = trainer.restore(folder, _say)
    return policy_of(program, runs, seed, setting, meant_with_noise(folder))
