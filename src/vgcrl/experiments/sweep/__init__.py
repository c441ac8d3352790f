"""`vgcrl sweep`: any option with several values, all combinations or a search among them."""

from pathlib import Path

from vgcrl.experiments.experiment import Ending
from vgcrl.experiments.scheduling import Executor, Say, carried_out, check_failed
from vgcrl.experiments.sweep.ask import Ask, read_values
from vgcrl.experiments.sweep.grid import plan, programs, train_all
from vgcrl.experiments.sweep.results import report
from vgcrl.experiments.sweep.trials import trial_name, tried
from vgcrl.training.fields import one_of
from vgcrl.training.summary import SUMMARISED


def _train(ask: Ask, folder: Path, say: Say, execute: Executor) -> list[str]:
    if not ask.trials:
        return train_all(ask, folder, say, execute)
    from vgcrl.experiments.sweep.search import train_trials  # needs ray

    return train_trials(ask, folder, say, execute)


def sweep(ask: Ask, folder: Path, say: Say, execute: Executor) -> Ending:
    """Trains the missing programs of a sweep, and writes the report, with a table of settings and the best command."""
    one_of("--optimise", ask.metric, SUMMARISED)
    failed, stopped = carried_out(lambda: _train(ask, folder, say, execute), folder, say, ask.minutes or 0)
    names = [trial_name(values) for values in tried(folder)] if ask.trials else list(programs(ask))
    path = None if ask.program else report(ask, names, folder, say)
    check_failed(failed, len(names))
    return Ending(path, stopped)


__all__ = ["Ask", "plan", "read_values", "sweep"]
