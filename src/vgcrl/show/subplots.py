"""Empty figures that only their caller holds; pyplot would keep every one until it is closed."""

from typing import Any

from matplotlib.figure import Figure


def subplots(*shape: int, figsize: tuple[float, float], **how: Any) -> tuple[Figure, Any]:
    """A figure and its axes, as pyplot's `subplots` gives them; `figsize` in inches, `how` for `Figure.subplots`."""
    figure = Figure(figsize=figsize, layout="constrained")
    return figure, figure.subplots(*shape, **how)
