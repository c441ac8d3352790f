"""Bodies as MuJoCo renders them, in the colours of their goals: one alone, or all in one scene with their trails."""

import importlib
import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.colors import to_rgba
from PIL import Image

from vgcrl.envs import bodies
from vgcrl.envs.bodies import Task
from vgcrl.errors import UsageError
from vgcrl.show.panels import HEIGHT, WIDTH, Draw

WIDE, HIGH = 840, 420  # a scene with all bodies
PAPER, TILE = (0xF3, 0xF2, 0xEE), (0xDE, 0xDB, 0xD2)
FAR_TILE = 5.0  # metres: a tile of a floor that is seen from afar
LANE = 1.2  # metres between bodies that only go forwards and backwards
EVERY, LEAST, MARGIN, MOST = 4, 6.0, 2.0, 20_000  # steps per piece of trail; nearest view, margin: m; geoms in a scene
ELEVATION, FOVY = -38.0, 45.0  # degrees; the second is MuJoCo's own


def papered(task: Task, tile: float = 1.0) -> Any:
    """Returns the model of a body on a floor like that of pages, with tiles `tile` metres wide.

    Shadows are coarse and nothing reflects: without a GPU a frame then takes less than half the time.
    """
    mujoco: Any = importlib.import_module("mujoco")
    model = bodies.load(task)
    for i in range(model.ntex):
        start, size = model.tex_adr[i], model.tex_width[i] * model.tex_height[i] * model.tex_nchannel[i]
        texels = model.tex_data[start : start + size].reshape(-1, model.tex_nchannel[i])
        if model.tex_type[i] == mujoco.mjtTexture.mjTEXTURE_SKYBOX:
            texels[:] = 0xFF
        elif model.tex_type[i] == mujoco.mjtTexture.mjTEXTURE_2D:
            texels[:] = np.where(texels.mean(axis=1, keepdims=True) < 128, TILE, PAPER)
    model.geom_rgba[0], model.geom_size[0, :2] = 1.0, 0.0  # a floor without an end
    model.mat_texuniform[:], model.mat_texrepeat[:], model.mat_reflectance[:] = True, 0.5 / tile, 0
    model.light_diffuse[:], model.light_specular[:] = 0.45, 0.1
    model.vis.headlight.ambient[:], model.vis.headlight.diffuse[:], model.vis.headlight.specular[:] = 0.5, 0.15, 0
    model.vis.quality.shadowsize = 1024
    model.vis.global_.offwidth, model.vis.global_.offheight = WIDE, HIGH
    return model


def paint(scene: Any, start: int, colour: tuple[float, ...], lane: float = 0.0) -> None:
    """Gives the geoms from `start` on, but for floors, one colour, and moves them sideways by `lane` metres."""
    for geom in scene.geoms[start : scene.ngeom]:
        if geom.objid > 0:  # the floor is the first geom of every model
            geom.rgba, geom.matid = colour, -1
            geom.pos[1] += lane


def alone(task: Task, qpos: np.ndarray, colours: Sequence[str]) -> Draw:
    """Returns a function that renders one skill of `qpos` (frame, skill, nq); the camera follows it."""
    mujoco: Any = importlib.import_module("mujoco")
    model = papered(task)
    data, renderer = mujoco.MjData(model), mujoco.Renderer(model, HEIGHT, WIDTH)
    camera = mujoco.MjvCamera()
    camera.distance, camera.azimuth, camera.elevation = 4.5, 90 if task.places == 1 else 120, -18

    def draw(frame: int, skill: int) -> Image.Image:
        data.qpos[:] = qpos[frame, skill]
        mujoco.mj_forward(model, data)
        camera.lookat[:] = [*data.qpos[: task.places], 0.0, 0.6][:2] + [0.6]
        renderer.update_scene(data, camera)
        paint(renderer.scene, 0, to_rgba(colours[skill]))
        return Image.fromarray(renderer.render())

    return draw


def in_view(low: np.ndarray, high: np.ndarray) -> tuple[list[float], float]:
    """Returns the point to look at, and the distance in metres from which a box on the ground is seen whole."""
    tilt, half = math.radians(-ELEVATION), (high - low) / 2 + MARGIN
    up = math.tan(math.radians(FOVY / 2))
    near = half[1] * math.cos(tilt)  # its front edge is so much nearer than its middle
    distance = max(near + half[0] / (up * WIDE / HIGH), near + half[1] * math.sin(tilt) / up, LEAST)
    return [*((low + high) / 2), 0.3], distance


def check_count(task: Task, goals: int) -> None:
    """Raises UsageError where a scene cannot hold so many bodies and their trails."""
    most = MOST // (2 * bodies.load(task).ngeom)
    if goals > most:
        raise UsageError(f"--together with {goals:,} goals is too many for a scene; valid: at most {most}")


def together(task: Task, qpos: np.ndarray, colours: Sequence[str]) -> Draw:
    """Returns a function that renders all skills of `qpos` (frame, skill, nq) in one scene, each with its trail.

    The camera moves back as they spread. Bodies that only go forwards and backwards have a lane each.
    """
    mujoco: Any = importlib.import_module("mujoco")
    model, each = papered(task, FAR_TILE), [to_rgba(colour) for colour in colours]
    data, option, nothing = mujoco.MjData(model), mujoco.MjvOption(), mujoco.MjvPerturb()
    camera, renderer = mujoco.MjvCamera(), mujoco.Renderer(model, HIGH, WIDE, max_geom=MOST)
    camera.azimuth, camera.elevation = 90, ELEVATION
    lanes = LANE * (np.arange(len(each)) - (len(each) - 1) / 2) if task.places == 1 else np.zeros(len(each))
    places = qpos[..., :2] * (np.arange(2) < task.places) + np.stack([0 * lanes, lanes], axis=-1)
    moving, capsule = mujoco.mjtCatBit.mjCAT_DYNAMIC, mujoco.mjtGeom.mjGEOM_CAPSULE

    def trail(scene: Any, path: np.ndarray, colour: tuple[float, ...]) -> None:
        ground = np.column_stack([path, np.full(len(path), 0.02)])
        for a, b in itertools.pairwise(ground):
            geom = scene.geoms[scene.ngeom]
            mujoco.mjv_initGeom(
                geom, capsule, np.zeros(3), np.zeros(3), np.eye(3).ravel(), np.array(colour, np.float32)
            )
            mujoco.mjv_connector(geom, capsule, 0.02 + 0.002 * camera.distance, a, b)
            scene.ngeom += 1

    def draw(frame: int, _: int) -> Image.Image:
        seen = places[: frame + 1].reshape(-1, 2)
        camera.lookat[:], camera.distance = in_view(seen.min(axis=0), seen.max(axis=0))
        scene = renderer.scene
        for i, colour in enumerate(each):
            start = scene.ngeom if i else 0
            data.qpos[:] = qpos[frame, i]
            mujoco.mj_forward(model, data)
            if i:
                mujoco.mjv_addGeoms(model, data, option, nothing, moving, scene)
            else:
                renderer.update_scene(data, camera)
            paint(scene, start, colour, lanes[i])
        steps = [*range(0, frame, EVERY * (1 + len(each) * frame // (EVERY * MOST // 2))), frame]
        for i, colour in enumerate(each):
            trail(scene, places[steps, i], colour)
        return Image.fromarray(renderer.render())

    return draw
