"""Skills of a body as rows of frames: MuJoCo's own kinematics, drawn flat, so that no OpenGL is needed.

Seen from afar, a capsule or a sphere is exactly a line with round ends. The camera follows the body over a
floor of 1 m tiles; the coloured line on it is x = 0, where episodes begin.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PathCollection, PolyCollection
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.path import Path

from vgcrl.envs import bodies
from vgcrl.envs.bodies import Task
from vgcrl.envs.mujoco_engine import Batch
from vgcrl.objective.goals import Discrete, GoalSpace
from vgcrl.show.acting import some_goals
from vgcrl.training.config import Config
from vgcrl.training.program import Program, RunState

WIDTH, LABEL, LINE = 12.0, 1.3, 0.2  # inches: of the figure, of a row's label, of a line of text
HUES = ("#2f6fb3", "#c8553d", "#3b8f62", "#8a5a9e", "#b9831a", "#2b8f98")
FLOOR, TILE, SHADOW, INK = "#f3f2ee", "#e7e5df", "#cfccc4", "#55524c"
MARGIN, SHALLOW = 0.1, 0.4  # metres of floor around the body, and at least before and behind it
CANDIDATES = 50  # skills simulated, of which the picture shows a few

CORNERS = np.array([[0, 0], [1, 0], [1, 1], [0, 1]])
START = np.array([[-0.03, -np.inf], [0.03, -np.inf], [0.03, np.inf], [-0.03, np.inf]])
CAP = np.asarray(Path.arc(-90, 90, 2).vertices)  # half a circle as two curves, the outline of a round end
OUTLINE, END = np.concatenate([CAP, -CAP, CAP[:1]]), np.repeat([1, 0, 1], [len(CAP), len(CAP), 1])
CURVES = [Path.CURVE4] * (len(CAP) - 1)
CODES = np.array([Path.MOVETO, *CURVES, Path.LINETO, *CURVES, Path.CLOSEPOLY])


def camera(azimuth: float, elevation: float) -> np.ndarray:
    """Returns the axes of a camera in the world as rows, (3, 3): right, up and away from it.

    Angles are in degrees. At 0°, 0° the world's x axis points right; a positive azimuth moves the camera towards +x.
    """
    a, e = np.radians([azimuth, elevation])
    away = [-np.sin(a) * np.cos(e), np.cos(a) * np.cos(e), -np.sin(e)]
    return np.array([[np.cos(a), np.sin(a), 0.0], [-np.sin(a) * np.sin(e), np.cos(a) * np.sin(e), np.cos(e)], away])


CAMERAS = {1: camera(0, 14), 2: camera(25, 24)}  # by the number of axes along which a body travels


def capsules(model: Any, qpos: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns ends (..., geom, 2, 3) and radii (geom,) of all moving geoms; the two ends of a sphere coincide."""
    import mujoco

    data, moves = mujoco.MjData(model), model.geom_bodyid > 0
    half = np.where(model.geom_type == mujoco.mjtGeom.mjGEOM_CAPSULE, model.geom_size[:, 1], 0.0)

    def ends(q: np.ndarray) -> np.ndarray:
        data.qpos[:] = q
        mujoco.mj_kinematics(model, data)
        along = half[:, None] * data.geom_xmat.reshape(-1, 3, 3)[:, :, 2]
        return np.stack([data.geom_xpos - along, data.geom_xpos + along], axis=1)[moves]

    each = np.stack([ends(q) for q in qpos.reshape(-1, model.nq)])
    return each.reshape(*qpos.shape[:-1], *each.shape[1:]), model.geom_size[moves, 0]


def outline(ends: np.ndarray, radius: np.ndarray) -> np.ndarray:
    """Returns the vertices (..., vertex, 2), for CODES, of thick lines with round ends, at `ends` (..., 2, 2)."""
    axis = ends[..., 1, :] - ends[..., 0, :]
    length = np.linalg.norm(axis, axis=-1, keepdims=True)
    u = np.where(length > 1e-9, axis / np.maximum(length, 1e-9), [1.0, 0.0])
    frame = np.stack([u, np.stack([-u[..., 1], u[..., 0]], axis=-1)], axis=-2)
    return ends[..., END, :] + radius[..., None, None] * (OUTLINE @ frame)


def tiles(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Returns the corners (tile, 4, 2) of every second 1 m tile of a floor that goes from `low` to `high`."""
    i, j = np.meshgrid(*(np.arange(np.floor(a), np.ceil(b)) for a, b in zip(low, high, strict=True)))
    dark = np.stack([i, j], axis=-1)[(i + j) % 2 == 1]
    return np.clip(dark[:, None] + CORNERS, low, high)


def shade(hue: str, late: float, far: np.ndarray) -> np.ndarray:
    """Returns colours (geom, 3): stronger the later the frame, paler the farther the geom; both go from 0 to 1."""
    strength = (0.4 + 0.6 * late) * (1 - 0.45 * far)
    return 1 - strength[:, None] * (1 - np.array(to_rgb(hue)))


def draw_floor(axis: Axes, view: np.ndarray, here: np.ndarray, stage: np.ndarray, place: float, hue: str) -> None:
    """Draws the floor of one frame, `stage` metres to every side of the body, which is at `here` in the world."""
    low, high = here - stage, here + stage
    whole, start = (low + 2 * stage * CORNERS)[None], np.clip(START, low, high)[None]
    for corners, colour in ((whole, FLOOR), (tiles(low, high), TILE), (start, hue)):
        flat = (corners - here) @ view[:2, :2].T + [place, 0.0]
        axis.add_collection(PolyCollection(flat, facecolors=[colour], linewidths=0), autolim=False)


def draw_body(axis: Axes, shadow: np.ndarray, limbs: np.ndarray, colours: np.ndarray) -> None:
    """Draws a body and its shadow from outlines (geom, vertex, 2), the farthest first."""
    paths = [Path(np.concatenate(shadow), np.tile(CODES, len(shadow))), *(Path(v, CODES) for v in limbs)]
    faces, edges = [SHADOW, *colours], ["none", *(0.6 * colours)]
    axis.add_collection(PathCollection(paths, facecolors=faces, edgecolors=edges, linewidths=0.5), autolim=False)


def minus(text: str) -> str:
    return text.replace("-", "−")


def filmstrip(task: Task, qpos: np.ndarray, labels: Sequence[str], frames: int = 8) -> Figure:
    """Draws a row of frames for each skill of `qpos` (step, skill, nq), with its mean velocity; +x is to the right."""
    model, view = bodies.load(task), CAMERAS[task.places]
    steps, seconds = len(qpos) - 1, task.frames * model.opt.timestep
    when = np.linspace(0, steps, frames).round().astype(int)
    speed = (qpos[-1] - qpos[0])[:, : task.places] / (steps * seconds)
    here = qpos[when][..., :2] * (np.arange(2) < task.places)  # what the camera follows

    ends, radius = capsules(model, qpos[when])
    ends[..., :2] -= here[..., None, None, :]
    stage = np.maximum(np.abs(ends[..., :2]).max(axis=(0, 1, 2, 3)) + radius.max() + MARGIN, [0, SHALLOW])
    away = (ends @ view[2]).mean(axis=-1)
    far = (away - away.min()) / max(np.ptp(away), 1e-9)

    edges = view[:2, :2] * stage  # columns: half the sides of a floor on paper
    half, front = np.abs(edges).sum(axis=1)
    pitch = 2 * np.abs(np.linalg.det(edges)) / np.abs(edges[1]).max() + MARGIN  # floors fit side by side
    place = np.stack([pitch * np.arange(frames), np.zeros(frames)], axis=-1)[:, None, None, None]
    limbs = outline(ends @ view[:2].T, radius) + place
    shadow = outline(ends[..., :2], radius) @ view[:2, :2].T + place

    inch = (2 * half + (frames - 1) * pitch) / (WIDTH - LABEL)
    low = -front - LINE * inch
    high = np.maximum(front, limbs[..., 1].max(axis=(0, 2, 3))) + LINE / 2 * inch
    height = (high - low).sum() / inch
    figure = Figure(figsize=(WIDTH, height + LINE))
    grid = {"left": 0, "right": 1, "bottom": 0, "top": height / (height + LINE), "hspace": 0}
    grid["height_ratios"] = high - low
    axes = figure.subplots(len(labels), squeeze=False, gridspec_kw=grid)[:, 0]
    for row, axis in enumerate(axes):
        axis.set(xlim=(-half - LABEL * inch, pitch * (frames - 1) + half), ylim=(low, high[row]))
        axis.axis("off")
        hue, left = HUES[row % len(HUES)], -half - (LABEL - 0.1) * inch
        note = partial(axis.text, color=INK, fontsize=8)
        note(left, 0.2 * inch, minus(labels[row]), color=hue, fontsize=9, weight="bold", va="bottom")
        velocity = "\n".join(f"{name} {v:+.2f} m/s" for name, v in zip("xy", speed[row], strict=False))
        note(left, 0.15 * inch, minus(velocity), va="top")
        for i, x in enumerate(pitch * np.arange(frames)):
            order = np.argsort(-away[i, row], kind="stable")
            colours = shade(hue, i / max(frames - 1, 1), far[i, row, order])
            draw_floor(axis, view, here[i, row], stage, x, hue)
            draw_body(axis, shadow[i, row], limbs[i, row, order], colours)
            position = ", ".join(f"{v:.1f}" for v in here[i, row, : task.places].round(1) + 0.0)
            note(x, -front - 0.03 * inch, minus(f"{position} m"), ha="center", va="top")
            if row == 0:
                note(x, high[0], f"{when[i] * seconds:.1f} s", ha="center", va="bottom")
    return figure


def record(config: Config, act: Callable[..., Any], goals: Any, keys: np.ndarray, steps: int) -> np.ndarray:
    """Runs one episode per goal and returns its positions, (step + 1, goal, nq).

    MuJoCo itself simulates, whatever engine trained.
    """
    task, shown = bodies.TASKS[config.env], bool(config.positions)
    envs = Batch(task, 1, len(goals), horizon=steps + 1, positions=shown)
    obs, path = envs.reset(keys), [envs.qpos.copy()]
    for clock in range(steps):
        obs = envs.step(np.asarray(act(obs[0], goals))[None], keys, clock).obs
        path.append(envs.qpos.copy())
    return np.stack(path)


def is_body(program: Program) -> bool:
    return program.config.env in bodies.TASKS


def most_different(values: np.ndarray, count: int) -> np.ndarray:
    """Returns the indices of `count` values, in order of value.

    Chosen are the least, then again and again the value that is farthest from those chosen before.
    """
    chosen = [int(np.argmin(values))]
    while len(chosen) < min(count, len(values)):
        gap = np.abs(values[:, None] - values[chosen]).min(axis=1)
        gap[chosen] = -1.0
        chosen.append(int(np.argmax(gap)))
    return np.array(sorted(chosen, key=lambda i: values[i]))


def title(goals: GoalSpace, z: Any) -> str:
    if isinstance(goals, Discrete):
        return f"skill {int(z)}"
    shown = np.asarray(goals.show(z))
    return "z = " + ", ".join([f"{x:.1f}" for x in shown[:2]] + ["…"] * (len(shown) > 2))


def skills(program: Program, run: RunState, count: int = 5, seconds: float = 4.0) -> Figure:
    """Draws the slowest skill, the fastest, and those that differ most from them, at the start of an episode."""
    key_goals, key_start = jax.random.split(run.key_evaluation)
    z = some_goals(program, run, CANDIDATES, key_goals)
    act = jax.jit(jax.vmap(lambda obs, z: program.act(run, obs, z)))
    steps = min(round(seconds / program.spec.seconds), program.spec.horizon)
    qpos = record(program.config, act, z, np.asarray(jax.random.key_data(key_start))[None], steps)
    few = most_different(qpos[-1, :, 0] - qpos[0, :, 0], count)
    return filmstrip(bodies.TASKS[program.config.env], qpos[:, few], [title(program.goals, z[i]) for i in few])
