"""The task that trains the program of one run folder, or continues it as it was begun."""

from pathlib import Path

from vgcrl.experiments.scheduling import Say, Task
from vgcrl.training import run_folder, trainer
from vgcrl.training.options import Options
from vgcrl.training.resolve import resolve


def train(options: Options, run: Path) -> run_folder.Run:
    """Trains a run from the start, or continues it as it was begun."""
    return trainer.resume(run) if run_folder.is_started(run) else trainer.start(options, run)


def training_task(name: str, options: Options, run: Path, words: tuple[str, ...], place: str, say: Say) -> Task:
    """Returns the task that trains one run folder, or continues it."""

    def make() -> None:
        say(f"{place}: {'continues' if run_folder.is_started(run) else 'starts'}")
        if train(options, run).interrupted:
            raise KeyboardInterrupt

    config = resolve(options)
    return Task(name, make, words, float(config.runs * config.steps))
