"""What happens at every evaluation: a callback of one's own, a stop at a bound, a log elsewhere."""

import math
import re
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from numbers import Real
from typing import Any, NamedTuple

from vgcrl.errors import Broken, UsageError
from vgcrl.training.config import Config
from vgcrl.training.fields import one_of
from vgcrl.training.loop import Callback, says_stop
from vgcrl.training.summary import SUMMARISED, measurable
from vgcrl.use.wandb_log import WandbLog

BOUND = re.compile(r"\s*(\w+)\s*(>=|<=)\s*(\S+)\s*")


class Bound(NamedTuple):
    """A bound on the mean of a metric over seeds; as a callback of `train` it stops there, after step 0."""

    metric: str
    at_least: float | None
    at_most: float | None

    def __call__(self, record: dict[str, Any]) -> bool:
        mean = record["mean"]
        value = mean.get(self.metric)  # evaluations of older versions have fewer metrics
        if value is None and not record["step"]:
            known = ", ".join(name for name, x in mean.items() if x is not None)
            raise Broken(f"--stop-when {self.metric!r}: this environment does not tell it; valid: {known}")
        if value is None or not record["step"]:
            return False
        return value >= self.at_least if self.at_least is not None else value <= self.at_most


def stop_when(metric: str, *, at_least: float | None = None, at_most: float | None = None) -> Bound:
    """Returns a callback for `train` that stops when the mean of a metric over seeds reaches a bound, after step 0.

    Examples:
        >>> vgcrl.train("gcrl", env="PointMaze_UMaze-v3", callback=vgcrl.stop_when("env_success", at_least=0.95))
    """
    one_of("stop_when", metric, SUMMARISED)
    if (at_least is None) == (at_most is None):
        raise UsageError("stop_when takes one bound; valid: at_least=... or at_most=...")
    bound = at_most if at_least is None else at_least
    if not isinstance(bound, Real) or isinstance(bound, bool) or math.isnan(bound):
        raise UsageError(f"stop_when: the bound {bound!r} is no number; valid: a number, e.g. at_least=0.95")
    return Bound(metric, at_least, at_most)


def stop_at(text: str, known: Sequence[str] = SUMMARISED) -> Bound:
    """Returns the callback of `stop_when` for METRIC>=X or METRIC<=X, as in --stop-when; `known` are valid metrics."""
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
    """All callbacks of a run, each called at every evaluation with its own copy of the record.

    `stopped` becomes true when one of them returns True.
    """

    def __init__(self, *callbacks: Callback):
        self._callbacks = callbacks
        self.stopped = False

    def __call__(self, record: dict[str, Any]) -> bool:
        self.stopped |= any([says_stop(callback(deepcopy(record))) for callback in self._callbacks])
        return self.stopped

    def reached(self, record: dict[str, Any]) -> bool:
        """Returns whether a bound holds at an evaluation that was before; only bounds are asked again."""
        self.stopped |= any([callback(record) for callback in self._callbacks if isinstance(callback, Bound)])
        return self.stopped


@contextmanager
def watching(
    config: Callable[[], Config], *, callback: Callback | None = None, stop: str | None = None, wandb: str | None = None
) -> Generator[Watch]:
    """Yield the callbacks of a run in training: that of the user, and those for --stop-when and --wandb."""
    if callback is not None and not callable(callback):
        raise UsageError(f"callback is a {type(callback).__name__}; valid: a function of an evaluation's record")
    if isinstance(callback, Bound):
        one_of("stop_when", callback.metric, measurable(config().specification))
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
