"""One episode of a Gymnasium environment for a film or a page: pictures where it draws itself."""

import warnings
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from vgcrl.envs import observations, own
from vgcrl.envs.contract import at_fault, broken, close, told
from vgcrl.envs.gl import choose_for_gymnasium
from vgcrl.envs.gymnasium_pool import make_env
from vgcrl.errors import UsageError

Act = Callable[[np.ndarray], Any]  # an observation as a vector, as training sees it -> the environment's own action


class NoPictures(UsageError):
    """An environment that does not draw itself; the message says why."""


class Episode(NamedTuple):
    """An episode: its start, and what came of every step."""

    observations: np.ndarray  # (moment, obs)
    pictures: list[np.ndarray]  # (height, width, 3) each, of the moments that were asked for; or none


def _rendered(env: Any, _: Any) -> np.ndarray:
    picture = np.asarray(env.render())
    if picture.ndim != 3 or picture.shape[-1] != 3:
        raise NoPictures(f"it renders arrays of shape {picture.shape}")
    return picture.astype(np.uint8)


def _observed(_: Any, obs: Any) -> np.ndarray:
    """Returns a picture observation as (height, width, 3); unless it has three channels, its last one in grey."""
    picture = np.array(obs)  # a copy: an environment may reuse its array
    last = np.moveaxis(picture, 0, -1) if observations.channels_first(picture.shape) else picture
    return last if last.shape[-1] == 3 else np.repeat(last[..., -1:], 3, axis=-1)


def _episode(
    env: Any, steps: int, act: Act, seed: int, draw: Callable[[Any, Any], np.ndarray] | None = None, every: int = 1
) -> Episode:
    """Runs one episode of at most `steps` steps; draw(env, obs) makes a picture of every `every`-th moment."""
    flatten = observations.flat(env.observation_space).flatten
    seen, pictures = [], []

    def look(obs: Any) -> None:
        seen.append(np.array(flatten(obs), np.float32))
        if draw is not None and len(seen) % every == 1 % every:
            pictures.append(draw(env, obs))

    look(env.reset(seed=seed)[0])
    for _ in range(steps):
        obs, _, terminated, truncated, _ = env.step(act(seen[-1]))
        look(obs)
        if terminated or truncated:
            break
    return Episode(np.stack(seen), pictures)


@contextmanager
def _made(name: str, options: dict[str, Any], tell: Callable[[BaseException], UsageError]) -> Generator[Any]:
    """Builds an environment and closes it afterwards; `tell` makes the error of what it raises."""
    with at_fault(tell):
        env = make_env(name, options)
        try:
            yield env
        finally:
            close(env)


def _drawn_by_itself(name: str, options: dict[str, Any], steps: int, act: Act, seed: int, every: int) -> Episode:
    drawing = {**options, "render_mode": "rgb_array"}
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*render_mode")  # that it may not draw itself is told if it does not
        with _made(name, drawing, lambda error: NoPictures(told(error))) as env:  # whatever is wrong with a renderer
            choose_for_gymnasium()
            return _episode(env, steps, act, seed, _rendered, every)


def filmed(name: str, env_arg: tuple[str, ...], steps: int, act: Act, seed: int = 0, every: int = 1) -> Episode:
    """Runs one episode of at most `steps` steps that starts as `seed` says, with a picture of every `every`-th moment.

    They are what the environment renders, else its observations where those are pictures; raises NoPictures where there
    are neither.
    """
    options = own.to_keywords(env_arg)
    try:
        return _drawn_by_itself(name, options, steps, act, seed, every)
    except NoPictures as undrawn:
        with _made(name, options, partial(broken, name)) as env:
            if not observations.is_picture(env.observation_space):
                raise undrawn from None
            return _episode(env, steps, act, seed, _observed, every)


def unfilmed(name: str, env_arg: tuple[str, ...], steps: int, act: Act, seed: int = 0) -> Episode:
    """Runs one episode of at most `steps` steps, which starts as `seed` says, without pictures."""
    with _made(name, own.to_keywords(env_arg), partial(broken, name)) as env:
        return _episode(env, steps, act, seed)


def desired_goals(name: str, env_arg: tuple[str, ...], count: int) -> np.ndarray:
    """Returns the goals that a goal environment asks for in the episodes of the seeds 0, 1, …, (episode, goal)."""
    with _made(name, own.to_keywords(env_arg), partial(broken, name)) as env:
        desired = observations.flat(env.observation_space).desired
        if desired is None:
            raise UsageError(f"{name} asks for no goals; valid: a goal environment")
        return np.stack([desired(env.reset(seed=seed)[0]) for seed in range(count)])
