"""Empty figures that only their caller refers to; pyplot would keep each of them until it is closed."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, MaxNLocator


def subplots(*shape: int, figsize: tuple[float, float], **how: Any) -> tuple[Figure, Any]:
    """Returns a figure and its axes, as pyplot's `subplots`; `figsize` is in inches, `how` is for `Figure.subplots`."""
    figure = Figure(figsize=figsize, layout="constrained")
    return figure, figure.subplots(*shape, **how)


def mark_steps(axis: Axes) -> None:
    """Gives the x axis a few ticks such as 2M, and starts it at 0."""
    axis.xaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 2.5, 5, 10]))
    axis.xaxis.set_major_formatter(EngFormatter(sep=""))
    axis.set_xlim(left=0)


@contextmanager
def own_style() -> Generator[None]:
    """Sets matplotlib's defaults for a while, whatever style the user has; figures are made and written under them."""
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        yield
