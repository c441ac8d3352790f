"""Acting for a film or a page that was recorded: by the mode of the policy, or with the noise of training."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import numpy as np

from vgcrl.training.program import Program, RunState


def acting(program: Program, run: RunState, noise: bool) -> Callable[[Any, Any], np.ndarray]:
    """Actions in [−1, 1] for a batch of observations and goals; noise is drawn anew at every call."""
    act, rng, width = jax.jit(jax.vmap(partial(program.act, run))), np.random.default_rng(0), program.spec.action_dim

    def actions(obs: Any, z: Any) -> np.ndarray:
        draws = rng.standard_normal((len(obs), width), np.float32) if noise else None
        return np.asarray(act(obs, z, draws))

    return actions
