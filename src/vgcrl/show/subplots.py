"""Empty figures that only their caller holds; pyplot would keep every one until it is closed."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, MaxNLocator


def subplots(*shape: int, figsize: tuple[float, float], **how: Any) -> tuple[Figure, Any]:
    """A figure and its axes, as pyplot's `subplots` gives them; `figsize` in inches, `how` for `Figure.subplots`."""
    figure = Figure(figsize=figsize, layout="constrained")
    return figure, figure.subplots(*shape, **how)


def mark_steps(axis: Axes) -> None:
    """Few ticks along x, as 2M, from 0 on."""
    axis.xaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 2.5, 5, 10]))
    axis.xaxis.set_major_formatter(EngFormatter(sep=""))
    axis.set_xlim(left=0)


@contextmanager
def own_style() -> Generator[None]:
    """As matplotlib comes, whatever style the user has: a report's figures are made and written under it."""
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        yield
