"""What can be asked of every evaluation: a function of one's own, to stop on a metric, to log elsewhere too."""

import math
import re
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from numbers import Real
from typing import Any

from vgcrl.errors import UsageError
from vgcrl.training.config import Config
from vgcrl.training.fields import one_of
from vgcrl.training.loop import Callback, says_stop
from vgcrl.training.summary import SUMMARISED, measurable
from vgcrl.use.wandb_log import WandbLog

BOUND = re.compile(r"\s*(\w+)\s*(>=|<=)\s*(\S+)\s*")


def stop_when(metric: str, *, at_least: float | None = None, at_most: float | None = None) -> Callback:
    """A callback of `train` that stops when the mean of a metric over seeds reaches a bound, after step 0.

    Examples:
        >>> vgcrl.train("gcrl", env="PointMaze_UMaze-v3", callback=vgcrl.stop_when("env_success", at_least=0.95))
    """
    one_of("stop_when", metric, SUMMARISED)
    if (at_least is None) == (at_most is None):
        raise UsageError("stop_when takes one bound; valid: at_least=... or at_most=...")
    bound = at_most if at_least is None else at_least
    if not isinstance(bound, Real) or isinstance(bound, bool) or math.isnan(bound):
        raise UsageError(f"stop_when: the bound {bound!r} is no number; valid: a number, e.g. at_least=0.95")

    def reached(record: dict[str, Any]) -> bool:
        value = record["mean"][metric]
        if value is None or not record["step"]:
            return False
        return value >= at_least if at_least is not None else value <= at_most

    return reached


def stop_at(text: str, known: Sequence[str] = SUMMARISED) -> Callback:
    """`stop_when` from `METRIC>=X` or `METRIC<=X`, as --stop-when has it; `known` are the metrics there are."""
    found = BOUND.fullmatch(str(text))
    valid = "METRIC>=X or METRIC<=X, e.g. --stop-when 'lgr_z>=0.95'"
    if not found:
        raise UsageError(f"--stop-when {text!r} is not understood; valid: {valid}")
    metric, sign, bound = found.groups()
    one_of("--stop-when", metric, known)
    try:
        value = float(bound)
        if math.isnan(value):
            raise ValueError
    except ValueError:
        raise UsageError(f"--stop-when {text!r}: {bound!r} is no number; valid: {valid}") from None
    return stop_when(metric, at_least=value) if sign == ">=" else stop_when(metric, at_most=value)


class Watch:
    """All that is asked of a run's evaluations, called at each with a record of its own; `stopped` once one of them has
    said so."""

    def __init__(self, *callbacks: Callback):
        self._callbacks = callbacks
        self.stopped = False

    def __call__(self, record: dict[str, Any]) -> bool:
        self.stopped |= any([says_stop(callback(deepcopy(record))) for callback in self._callbacks])
        return self.stopped


@contextmanager
def watching(
    config: Callable[[], Config], *, callback: Callback | None = None, stop: str | None = None, wandb: str | None = None
) -> Generator[Watch]:
    """What the options --stop-when and --wandb, and a callback from Python, ask for, while a run is trained."""
    if callback is not None and not callable(callback):
        raise UsageError(f"callback is a {type(callback).__name__}; valid: a function of an evaluation's record")
    bound = None if stop is None else stop_at(stop, measurable(config().specification))
    asked = [x for x in (callback, bound) if x is not None]
    if wandb is None:
        yield Watch(*asked)
        return
    log = WandbLog(wandb, config())
    try:
        yield Watch(*asked, log)
    finally:
        log.close()
