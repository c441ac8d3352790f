"""Pictures of a run, as matplotlib figures."""

from collections.abc import Callable
from colorsys import hls_to_rgb
from operator import itemgetter
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.cm import ScalarMappable
from matplotlib.colors import ListedColormap, Normalize
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, LogLocator, MaxNLocator

from vgcrl.objective.goals import Discrete
from vgcrl.objective.methods import METHODS
from vgcrl.objective.types import EnvSpec
from vgcrl.show.acting import some_goals
from vgcrl.show.subplots import mark_steps, subplots
from vgcrl.show.tables import LABELS
from vgcrl.training.fields import knobs_in_words
from vgcrl.training.program import Program, RunState, one_run


def over_time(lines: list[dict[str, Any]], value: Callable[[dict[str, Any]], float]) -> np.ndarray:
    """Returns value(row) of every run at every evaluation, (evaluation, run)."""
    return np.array([[value(row) for row in line["seeds"]] for line in lines], float)


def draw_scale(axis: Any, scale: Any) -> None:
    """Draws chance and best as dashed lines; with both in the picture, noise does not look like learning."""
    for level, name in ((scale.chance, "chance"), (scale.best, "best")):
        if level is not None:
            axis.axhline(level, color="grey", linestyle="--", linewidth=1)
            axis.annotate(name, (0.99, level), xycoords=("axes fraction", "data"), ha="right", va="bottom", fontsize=7)
    axis.margins(y=0.12)


def curves(
    lines: list[dict[str, Any]], names: tuple[str, ...] = ("F", "lgr_z", "lgr_s"), known: dict[str, Any] | None = None
) -> Figure:
    """Draws numbers over environment steps: seeds thin, their mean thick, the mean F on replay dotted.

    Each setting has a colour. `known` has the Scale of each number, whose chance and best are drawn.
    """
    size = 3.6 * len(names), 2.8
    figure, (axes,) = subplots(1, len(names), figsize=size, squeeze=False)
    steps = [line["step"] for line in lines]
    each = lines[0].get("settings", [{}])
    settings = [", ".join(knobs_in_words({k: v for k, v in s.items() if k not in lines[0]})) for s in each]
    for axis, name in zip(axes, names, strict=True):
        for i, group in enumerate(np.split(over_time(lines, itemgetter(name)), len(settings), axis=1)):
            axis.plot(steps, group, color=f"C{i}", alpha=0.3, linewidth=1)
            axis.plot(steps, group.mean(axis=1), color=f"C{i}", linewidth=2, label=settings[i])
        if name == "F":
            for i, group in enumerate(np.split(over_time(lines, lambda row: row["train"]["F"]), len(settings), axis=1)):
                axis.plot(steps, group.mean(axis=1), ":", color=f"C{i}", linewidth=1.5)
        if known and name in known:
            draw_scale(axis, known[name])
        mark_steps(axis)
        axis.set(title=LABELS[name], xlabel="environment steps")
        axis.grid(alpha=0.3)
    if len(settings) > 1:
        axes[0].legend(fontsize=7)
    return figure


def is_planar(program: Program) -> bool:
    """Returns whether q is a function of two positions, so that it can be drawn."""
    if METHODS[program.config.method].posterior_input != "state":
        return False
    return program.spec.position == (0, 1) and program.config.feature_indices(program.spec) == (0, 1)


def ranges(spec: EnvSpec) -> list[tuple[float, float]]:
    """Returns the lowest and the highest value of each of the two positions."""
    return list(zip(spec.low[:2], spec.high[:2], strict=True))


def arena_grid(spec: EnvSpec, size: int) -> jax.Array:
    """Returns states at rest on a square grid over the two positions, (size · size, obs)."""
    x, y = np.meshgrid(*(np.linspace(*ends, size) for ends in ranges(spec)))
    states = np.zeros((size * size, spec.obs_dim), np.float32)
    states[:, 0], states[:, 1] = x.ravel(), y.ravel()
    return jnp.asarray(states)


def label_map(spec: EnvSpec, run: RunState, size: int = 121) -> jax.Array:
    """Returns the most likely category at each place of the arena, (size, size)."""
    return jax.vmap(lambda s: run.learner.q(s).mode())(arena_grid(spec, size)).reshape(size, size)


def palette(count: int) -> np.ndarray:
    """Returns a colour for each skill, (skill, 4), the same as in films and on the explorer's page (colours.js)."""
    hues = (205 / 360 + np.arange(count) / count) % 1
    return np.array([(*hls_to_rgb(hue, 0.58 if i % 2 else 0.47, 0.62), 1.0) for i, hue in enumerate(hues)])


def draw_labels(axis: Any, program: Program, run: RunState, size: int) -> None:
    """Colours the arena by the most likely category at each place."""
    (left, right), (bottom, top) = ranges(program.spec)
    picture = palette(program.goals.dim)[np.asarray(label_map(program.spec, run, size))]
    axis.imshow(picture, origin="lower", extent=(left, right, bottom, top), alpha=0.35, interpolation="nearest")


def add_key(figure: Figure, axis: Any, count: int) -> None:
    """Draws beside a picture which colour is which skill."""
    numbered = ScalarMappable(Normalize(-0.5, count - 0.5), ListedColormap(palette(count)))
    figure.colorbar(numbered, ax=axis, label="skill", ticks=MaxNLocator(min(count, 10), integer=True), shrink=0.9)


def plane(program: Program) -> tuple[int, ...] | None:
    """Returns two dimensions of the observation in which to draw a run from above, or None where there are none.

    They are its positions, else all that q sees.
    """
    features = program.config.feature_indices(program.spec)
    pairs = [x for x in (program.spec.position, features) if len(x) == 2]
    return pairs[0] if pairs and not program.spec.image else None


def arena(program: Program, runs: RunState, size: int = 121, goals: int = 20) -> Figure:
    """Draws where the first run goes, a trajectory per goal in its colour, over a map of q where q can be drawn."""
    figure, axis = subplots(figsize=(5.0, 4.2))
    run, across = one_run(runs, 0), list(plane(program) or ())
    discrete = isinstance(program.goals, Discrete)
    z = some_goals(program, run, program.goals.dim if discrete else goals)
    colours, labelled = palette(len(z)), discrete and is_planar(program)
    if labelled:
        draw_labels(axis, program, run, size)
    if discrete:
        add_key(figure, axis, len(z))
    path = np.asarray(program.record_episodes(runs, z))[0][..., across]
    for g, colour in enumerate(colours):
        axis.plot(path[:, g, 0], path[:, g, 1], color=colour, linewidth=1.2)
        axis.plot(*path[-1, g], "o", color=colour, markersize=5, markeredgecolor="black")
    ends = np.array([[program.spec.low[i], program.spec.high[i]] for i in across])
    if np.isfinite(ends).all():
        axis.set(xlim=1.03 * ends[0], ylim=1.03 * ends[1])
    names = ("x", "y") if program.spec.position == tuple(across) else [f"observation {i}" for i in across]
    axis.set(aspect="equal" if np.isfinite(ends).all() else "auto", xlabel=names[0], ylabel=names[1])
    places = "background: the skill that q takes for the likeliest\n" if labelled else ""
    axis.set_title(f"{places}lines: one episode for each goal, dot: its last state", fontsize=9)
    return figure


def speed(record: dict[str, Any]) -> Figure:
    """Draws what `vgcrl bench` measured: updates/s against runs trained together and against |G|; a peer as a line."""
    figure, axes = subplots(1, 2, figsize=(8, 3), sharey=True)
    rows = record["training"]
    first = rows[0]
    groups = {
        "runs": [row for row in rows if row["goal_dim"] == first["goal_dim"]],
        "goal_dim": [row for row in rows if row["runs"] == first["runs"]],
    }
    for axis, (name, group) in zip(axes, groups.items(), strict=True):
        group = sorted(group, key=lambda row: row[name])
        axis.plot([row[name] for row in group], [row["updates_per_second"] for row in group], "o-", label="vgcrl")
        if "peer" in record:
            best = max(x["updates_per_second"] for x in record["peer"]["measured"])
            axis.axhline(best, color="grey", linestyle="--", label=f"{record['peer']['name']}, one run")
        axis.set(xscale="log", yscale="log", ylabel="updates/s, all runs" if name == "runs" else "")
        axis.set_xlabel("runs trained together" if name == "runs" else "|G|, one run")
        axis.set_xticks([row[name] for row in group], [str(row[name]) for row in group])
        axis.minorticks_off()
        axis.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.yaxis.set_major_formatter(EngFormatter())
        axis.grid(alpha=0.3)
    axes[0].legend()
    return figure
