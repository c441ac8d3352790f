"""Figures of a grid: learning curves, and every row against the paper's."""

from typing import Any

import numpy as np
from matplotlib.figure import Figure

from vgcrl.experiments.entries import Entry, technique
from vgcrl.show.figures import LABELS
from vgcrl.show.subplots import mark_steps, subplots
from vgcrl.show.tables import least_to_most

COLOURS = ("#57606a", "#2f6fb3", "#c8553d", "#3b8f62", "#8a5a9e")


def draw_curve(axis: Any, entry: Entry, metric: str, colour: str) -> None:
    """Draws the mean over seeds, a band from the lowest to the highest, and the paper's last value.

    The latter is a cross, or a plus for a row with P-HER.
    """
    curves = entry.cell["curves"] if entry.cell else {}
    if metric not in curves:
        return
    steps, values = curves["step"], np.array(curves[metric], float)[:, entry.setting]
    style = "--" if entry.row["p_her"] == "1" else "-"
    axis.plot(steps, values.mean(axis=1), style, color=colour, linewidth=1.5, label=technique(entry.row))
    axis.fill_between(steps, values.min(axis=1), values.max(axis=1), color=colour, alpha=0.15, linewidth=0)
    paper = entry.paper(metric)
    if paper is not None:
        axis.plot(steps[-1], paper, "x" if style == "-" else "+", color=colour, clip_on=False, zorder=5)


def curves(rows: list[Entry], metrics: tuple[str, ...] = ("F", "lgr_z", "lgr_v", "spread_v")) -> Figure:
    """Draws learning curves, a column for each |G| and a row for each metric; in one row where there is one |G|."""
    sizes = list(dict.fromkeys(entry.row["goal_dim"] for entry in rows if entry.cell))
    shape = (len(metrics), len(sizes)) if len(sizes) > 1 else (1, len(metrics))
    inches = 1.6 + 2.4 * shape[1], 0.6 + 1.8 * shape[0]
    figure, axes = subplots(*shape, figsize=inches, squeeze=False)
    hues = {key: COLOURS[i] for i, key in enumerate(dict.fromkeys((e.row["posterior"], e.row["sn"]) for e in rows))}
    for i, metric in enumerate(metrics):
        for j, size in enumerate(sizes):
            axis = axes.reshape(len(metrics), len(sizes))[i, j]
            for entry in rows:
                if entry.row["goal_dim"] == size:
                    draw_curve(axis, entry, metric, hues[entry.row["posterior"], entry.row["sn"]])
            axis.set_title(f"{LABELS[metric]}, |G| = {size}", fontsize=9)
            mark_steps(axis)
            axis.grid(alpha=0.3)
            axis.tick_params(labelsize=8)
    for mark, what in (("x", "paper"), ("+", "paper, with P-HER")) if any(e.published for e in rows) else ():
        axes[0, 0].plot([], [], mark, color="0.4", label=what)
    handles = dict(zip(*reversed(axes[0, 0].get_legend_handles_labels()), strict=True))
    figure.legend(handles.values(), handles.keys(), loc="outside right upper", fontsize=8)
    figure.supxlabel("environment steps", fontsize=9)
    figure.suptitle(while_training(rows), fontsize=9)
    return figure


def while_training(rows: list[Entry]) -> str:
    """Returns a caption: what lines and bands are, and why they do not end at the numbers of the tables."""
    cells = [entry.cell for entry in rows if entry.cell]
    few = least_to_most([cell["config"]["evaluate_episodes"] for cell in cells])
    many = least_to_most([cell["episodes"] for cell in cells])
    return (
        "Line: mean over seeds; band: from the lowest seed to the highest.\n"
        f"A point is of {few} episodes and at most as many targets while training.\n"
        f"The tables are of {many} episodes and all targets after it, and so differ from the last point."
    )


def scatter(rows: list[Entry], higher: bool) -> Figure:
    """Draws our values against the paper's, a point per row."""
    panels = (("lgr_v", False, False), ("lgr_z", not higher, higher))  # metric, logarithmic, higher is better
    figure, axes = subplots(1, 2, figsize=(9.8, 4))
    bodies = list(dict.fromkeys(entry.row["env"] for entry in rows if len(entry.values("lgr_z"))))
    for axis, (metric, logarithmic, up) in zip(axes, panels, strict=True):
        for entry in rows:
            values = entry.values(metric)
            if not len(values) or not np.isfinite(values).all():
                continue
            ends = np.abs(np.array([[values.min()], [values.max()]]) - values.mean())
            colour, fill = COLOURS[1 + bodies.index(entry.row["env"])], entry.row["p_her"] == "1"
            look = {"fmt": "^" if entry.unfinished else "o", "mfc": colour if fill else "white"}
            axis.errorbar(entry.paper(metric), values.mean(), ends, color=colour, ms=5, lw=1, **look)
        low, high = (f(*axis.get_xlim(), *axis.get_ylim()) for f in (min, max))
        if logarithmic:
            axis.set(xscale="log", yscale="log")
            low = (
                min((x for line in axis.lines for x in (*line.get_xdata(), *line.get_ydata()) if x > 0), default=0.1)
                / 1.5
            )
        axis.plot([low, high], [low, high], color="0.7", linewidth=1, zorder=0)
        axis.set(
            title=f"{LABELS[metric]}: {'above' if up else 'below'} the line is better", xlabel="paper", ylabel="ours"
        )
        axis.grid(alpha=0.3)
    for i, body in enumerate(bodies):
        axes[0].plot([], [], "o", color=COLOURS[1 + i], label=body)
    axes[0].plot([], [], "o", color="0.4", label="with P-HER")
    axes[0].plot([], [], "o", color="0.4", mfc="white", label="without")
    axes[0].plot([], [], color="0.4", linewidth=1, label="lowest to\nhighest seed")
    if any(entry.unfinished for entry in rows):
        axes[0].plot([], [], "^", color="0.4", mfc="white", label="unfinished")
    figure.legend(loc="outside right upper", fontsize=8)
    return figure
