"""Flat drawings of one frame of one skill: a body, or a point mass in its arena; or an environment's own pictures."""

from collections.abc import Callable
from typing import Any

import numpy as np
from PIL import Image, ImageDraw, ImageOps

from vgcrl.envs import bodies
from vgcrl.envs.bodies import Task
from vgcrl.show.filmstrip import CAMERAS, FLOOR, TILE, capsules, tiles

WIDTH, HEIGHT = 360, 300
FINE = 2  # pictures are drawn so many times larger, then reduced, which makes them smooth
SPAN = {1: 2.8, 2: 3.2}  # metres across, by the number of axes along which a body travels
Draw = Callable[[int, int], Image.Image]  # frame, skill -> picture


def _outlined(pen: ImageDraw.ImageDraw, ends: np.ndarray, radius: float, colour: tuple[int, ...]) -> None:
    """Draws a thick line with round ends and a darker edge."""
    dark = tuple(int(0.62 * c) for c in colour)
    for r, fill in ((radius + FINE, dark), (radius, colour)):
        pen.line([*map(tuple, ends)], fill=fill, width=max(1, round(2 * r)))
        for x, y in ends:
            pen.ellipse((x - r, y - r, x + r, y + r), fill=fill)


def _rgb(colour: str) -> np.ndarray:
    return np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)], float)


def drawn_body(task: Task, qpos: np.ndarray, colours: list[str]) -> Draw:
    """Returns a function that draws the body of `qpos` (frame, skill, nq), followed over a floor of 1 m tiles."""
    model, view = bodies.load(task), CAMERAS[task.places]
    ends, radius = capsules(model, qpos)
    here = qpos[..., :2] * (np.arange(2) < task.places)
    scale, size = FINE * WIDTH / SPAN[task.places], np.array([WIDTH, HEIGHT]) * FINE
    reach = np.array([SPAN[task.places], 2.5])

    def flat(points: np.ndarray, centre: np.ndarray) -> np.ndarray:
        """Returns pixels of points in the world; a point 0.6 m above `centre` is in the middle of the picture."""
        away = points - np.append(centre, 0.6)
        return size / 2 + (away @ view[:2].T) * [scale, -scale]

    def on_floor(corners: np.ndarray, centre: np.ndarray) -> list[tuple[float, ...]]:
        return [tuple(p) for p in flat(np.concatenate([corners, np.zeros((len(corners), 1))], axis=1), centre)]

    def draw(frame: int, skill: int) -> Image.Image:
        centre, hue = here[frame, skill], _rgb(colours[skill])
        image = Image.new("RGB", tuple(size), "#ffffff")
        pen = ImageDraw.Draw(image)
        low, high = centre - reach, centre + reach
        whole = np.array([low, [high[0], low[1]], high, [low[0], high[1]]])
        pen.polygon(on_floor(whole, centre), fill=FLOOR)
        for tile in tiles(low, high):
            pen.polygon(on_floor(tile, centre), fill=TILE)
        line = np.array([[-0.03, low[1]], [0.03, low[1]], [0.03, high[1]], [-0.03, high[1]]])
        if low[0] < 0 < high[0]:
            pen.polygon(on_floor(line, centre), fill=tuple(int(x) for x in hue))
        limbs = ends[frame, skill]
        for limb, r in zip(limbs, radius, strict=True):
            shadow = flat(limb * [1, 1, 0], centre)
            pen.line([*map(tuple, shadow)], fill="#cfccc4", width=max(1, round(1.6 * r * scale)))
        depth = (limbs @ view[2]).mean(axis=-1)
        far = (depth - depth.min()) / max(np.ptp(depth), 1e-9)
        for i in np.argsort(-depth, kind="stable"):
            colour = tuple(int(x) for x in 255 - (1 - 0.45 * far[i]) * (255 - hue))
            _outlined(pen, flat(limbs[i], centre), radius[i] * scale, colour)
        return image.reduce(FINE)

    return draw


def arena(
    places: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    colours: list[str],
    goals: np.ndarray | None,
    ground: Any = None,
) -> Draw:
    """Returns a function that draws the point mass of `places` (frame, skill, 2) in its arena, seen from above.

    `goals` (skill, 2) are drawn too; they are None where goals are not places.
    """
    side, edge = FINE * min(WIDTH, HEIGHT) - 60 * FINE, 30 * FINE
    left = (FINE * WIDTH - side) / 2

    def pixel(place: np.ndarray) -> tuple[float, float]:
        x, y = (place - low) / (high - low)
        return left + x * side, edge + (1 - y) * side

    def disc(pen: ImageDraw.ImageDraw, at: tuple[float, float], r: float, **how: Any) -> None:
        pen.ellipse((at[0] - r, at[1] - r, at[0] + r, at[1] + r), **how)

    empty, box = Image.new("RGB", (FINE * WIDTH, FINE * HEIGHT), FLOOR), (left, edge, left + side, edge + side)
    ImageDraw.Draw(empty).rectangle(box, fill="#ffffff")
    if ground is not None:
        empty.paste(ground.resize((int(side), int(side))), (int(left), int(edge)))
    ImageDraw.Draw(empty).rectangle(box, outline="#c9c4b6", width=FINE)

    def draw(frame: int, skill: int) -> Image.Image:
        hue, image = colours[skill], empty.copy()
        pen = ImageDraw.Draw(image)
        if goals is not None:
            disc(pen, pixel(goals[skill]), 9 * FINE, outline="#1f8a5b", width=2 * FINE)
        path = [pixel(place) for place in places[: frame + 1, skill]]
        if len(path) > 1:
            pen.line(path, fill=hue, width=2 * FINE, joint="curve")
        disc(pen, path[-1], 7 * FINE, fill=hue, outline="#ffffff", width=FINE)
        return image.reduce(FINE)

    return draw


def pictures(frames: list[list[np.ndarray]]) -> Draw:
    """Returns a function that shows the frames an environment drew itself, the last one after an episode has ended."""

    def draw(frame: int, skill: int) -> Image.Image:
        shown = frames[skill][min(frame, len(frames[skill]) - 1)]
        how = Image.Resampling.NEAREST if max(shown.shape[:2]) < HEIGHT // 2 else Image.Resampling.BICUBIC
        return ImageOps.pad(Image.fromarray(np.asarray(shown, np.uint8)), (WIDTH, HEIGHT), how, FLOOR)

    return draw
