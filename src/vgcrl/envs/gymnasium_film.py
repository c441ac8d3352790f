"""One episode of a Gymnasium environment for a film or a page: pictures where it draws itself."""

from collections.abc import Callable
from typing import Any

import numpy as np

from vgcrl.envs.contract import told
from vgcrl.envs.gymnasium_pool import make_env


class NoPictures(Exception):
    """An environment that does not draw itself; the message says why."""


def _pictured(env: Any) -> np.ndarray:
    picture = np.asarray(env.render())
    if picture.ndim != 3 or picture.shape[-1] != 3:
        raise NoPictures(f"it renders arrays of shape {picture.shape}")
    return picture.astype(np.uint8)


def _episode(env: Any, steps: int, act: Callable[[Any], Any], look: Callable[[Any], Any]) -> list[Any]:
    """What `look` sees of an environment at every step of one episode."""
    obs, _ = env.reset(seed=0)
    seen = [look(env)]
    for _ in range(steps):
        obs, _, terminated, truncated, _ = env.step(act(obs))
        seen.append(look(env))
        if terminated or truncated:
            break
    return seen


def filmed(name: str, steps: int, act: Callable[[Any], Any]) -> list[np.ndarray]:
    """Pictures (height, width, 3) of one episode of at most `steps` steps; raises NoPictures where there are none."""
    try:
        env = make_env(name, {"render_mode": "rgb_array"})
        try:
            return _episode(env, steps, act, _pictured)
        finally:
            env.close()
    except NoPictures:
        raise
    except Exception as error:  # whatever is wrong with a user's renderer
        raise NoPictures(told(error)) from None


def unfilmed(name: str, steps: int, act: Callable[[Any], Any]) -> None:
    """One episode without pictures: `act` sees every observation but the last."""
    env = make_env(name, {})
    _episode(env, steps, act, lambda env: None)
    env.close()
