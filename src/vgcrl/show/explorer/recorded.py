"""Episodes of a Gymnasium environment for a page: pictures where it draws itself, and curves of its observation.

An observation that is a picture has no curves; it is shown itself where the environment does not draw itself.
"""

import base64
import io
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from vgcrl.envs import gymnasium_film
from vgcrl.objective.goals import Discrete
from vgcrl.objective.methods import METHODS
from vgcrl.show.acting import acting, asks_for_goals, desired, given_goals, some_goals
from vgcrl.show.explorer import networks
from vgcrl.show.explorer.networks import Data
from vgcrl.show.tables import counted
from vgcrl.training.program import Program, RunState, check_sound, diverged, one_run, without

GOALS = 8  # episodes on a page
STEPS = 400  # of an episode, at most
PICTURES = 120  # of an episode, at most
WIDTH = 320  # pixels


def _jpeg(picture: np.ndarray) -> str:
    from PIL import Image

    image, buffer = Image.fromarray(picture).convert("RGB"), io.BytesIO()
    image.thumbnail((WIDTH, WIDTH))
    image.save(buffer, "JPEG", quality=80)
    return base64.b64encode(buffer.getvalue()).decode()


def _label(program: Program, z: Any, last: np.ndarray) -> str:
    """Returns the label of an episode: its goal and, where goals are states, the state at its end."""

    def numbers(values: Any) -> str:
        rounded = np.round(np.asarray(values)[:4], 2) + 0.0  # no number is −0
        return ", ".join(f"{x:.2f}" for x in rounded).replace("-", "−")

    if isinstance(program.goals, Discrete):
        return f"skill {int(z)}"
    goal, features = numbers(program.goals.show(z)), list(program.config.feature_indices(program.spec))
    if METHODS[program.config.method].bounded and not program.spec.pixels:
        return f"to {goal}: reached {numbers(last[features])}"
    return f"z = {goal}"


def record(
    env: str, env_arg: tuple[str, ...], steps: int, act: gymnasium_film.Act, seed: int, every: int
) -> gymnasium_film.Episode:
    """Runs one episode. There are no pictures where `every` is 0 or the environment has none."""
    with suppress(gymnasium_film.NoPictures):
        if every:
            return gymnasium_film.filmed(env, env_arg, steps, act, seed, every)
    return gymnasium_film.unfilmed(env, env_arg, steps, act, seed)


def episodes(
    program: Program, runs: RunState, noise: bool, given: Sequence[Any] | None, say: Callable[[str], None]
) -> list[Data]:
    """Records an episode per goal with the first run that has not diverged: label, observations and any pictures.

    The goals are those given, those that a goal environment asks for, or some that differ.
    """
    first = int(np.argmin(diverged(runs)))
    check_sound(program.config, runs, first)
    run = one_run(without(runs, "replay", "scene"), first)
    config, spec, act = program.config, program.spec, acting(program, run, noise)
    steps, env_arg, found, pictured = min(STEPS, config.horizon), config.env_arg or (), [], True
    every = -(-(steps + 1) // PICTURES)
    own = given is None and asks_for_goals(program)
    some = desired if own else some_goals
    goals = some(program, run, GOALS) if given is None else given_goals(program, given)
    say(f"recording {counted(len(goals), 'episode')} of at most {counted(steps, 'step')}")
    for i, z in enumerate(goals):
        pursue = lambda obs, z=z: spec.native(act(obs[None], z[None])[0])  # noqa: E731
        seen, frames = record(config.env, env_arg, steps, pursue, i if own else 0, every if pictured else 0)
        pictured = bool(frames)  # an environment that gave no pictures once never will
        observations = networks.tensor(seen[:, :0] if spec.pixels else seen)
        pictures = [_jpeg(frame) for frame in frames]
        found.append(
            {"label": _label(program, z, seen[-1]), "observations": observations, "pictures": pictures, "every": every}
        )
    return found


def recorded_world(
    program: Program, runs: RunState, noise: bool, given: Sequence[Any] | None, say: Callable[[str], None]
) -> Data:
    """Returns a world of recorded episodes, which the page plays back without simulating anything."""
    names = [f"observation {i}" for i in range(0 if program.spec.pixels else program.spec.obs_dim)]
    return {"kind": "recorded", "names": names, "place": [], "episodes": episodes(program, runs, noise, given, say)}
