"""One episode of a Gymnasium environment for a film or a page: pictures where it draws itself."""

from collections.abc import Callable
from typing import Any

import numpy as np

from vgcrl.envs import observations, own
from vgcrl.envs.contract import told
from vgcrl.envs.gl import choose_for_gymnasium
from vgcrl.envs.gymnasium_pool import make_env

Act = Callable[[np.ndarray], Any]  # an observation as a vector, as training sees it -> the environment's own action


class NoPictures(Exception):
    """An environment that does not draw itself; the message says why."""


def _rendered(env: Any, _: Any) -> np.ndarray:
    picture = np.asarray(env.render())
    if picture.ndim != 3 or picture.shape[-1] != 3:
        raise NoPictures(f"it renders arrays of shape {picture.shape}")
    return picture.astype(np.uint8)


def _observed(_: Any, obs: Any) -> np.ndarray:
    """An observation that is a picture: of one or more than three channels the last, as grey."""
    picture = np.array(obs)  # a copy: an environment may reuse its array
    last = np.moveaxis(picture, 0, -1) if observations.channels_first(picture.shape) else picture
    return last if last.shape[-1] == 3 else np.repeat(last[..., -1:], 3, axis=-1)


def _episode(env: Any, steps: int, act: Act, look: Callable[[Any, Any], Any]) -> list[Any]:
    """What `look` makes of an environment and its observation at every step of one episode."""
    flatten = observations.flat(env.observation_space).flatten
    obs, _ = env.reset(seed=0)
    seen = [look(env, obs)]
    for _ in range(steps):
        obs, _, terminated, truncated, _ = env.step(act(np.array(flatten(obs), np.float32)))
        seen.append(look(env, obs))
        if terminated or truncated:
            break
    return seen


def _drawn_by_itself(name: str, options: dict[str, Any], steps: int, act: Act) -> list[np.ndarray]:
    try:
        env = make_env(name, {**options, "render_mode": "rgb_array"})
        choose_for_gymnasium()
        try:
            return _episode(env, steps, act, _rendered)
        finally:
            env.close()
    except NoPictures:
        raise
    except Exception as error:  # whatever is wrong with a user's renderer
        raise NoPictures(told(error)) from None


def filmed(name: str, env_arg: tuple[str, ...], steps: int, act: Act) -> list[np.ndarray]:
    """Pictures (height, width, 3) of one episode of at most `steps` steps: as the environment renders itself, else its
    observations where those are pictures; raises NoPictures where there are neither."""
    options = own.to_keywords(env_arg)
    try:
        return _drawn_by_itself(name, options, steps, act)
    except NoPictures:
        env = make_env(name, options)
        try:
            if not observations.is_picture(env.observation_space):
                raise
            return _episode(env, steps, act, _observed)
        finally:
            env.close()


def unfilmed(name: str, env_arg: tuple[str, ...], steps: int, act: Act) -> None:
    """One episode without pictures: `act` sees every observation but the last."""
    env = make_env(name, own.to_keywords(env_arg))
    _episode(env, steps, act, lambda env, obs: None)
    env.close()
