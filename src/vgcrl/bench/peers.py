"""Times other people's implementations with their own settings, where they are installed."""

import contextlib
import functools
import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from vgcrl.errors import UsageError

Timing = Callable[[float], dict[str, Any]]  # seconds to spend, roughly -> speeds


class Peer(NamedTuple):
    packages: tuple[str, ...]
    prepare: Callable[[], Timing]  # builds it; the result can be called more than once


def _median(run: Callable[[], float], seconds: float) -> float:
    rates, started = [], time.perf_counter()
    while len(rates) < 5 or time.perf_counter() - started < seconds:
        rates.append(run())
    return float(np.median(rates))


def stable_baselines3() -> Timing:
    """Prepares SAC on HalfCheetah: one environment, one update per step, batch 256, (256, 256), no discriminator."""
    import gymnasium
    from stable_baselines3 import SAC

    model = SAC("MlpPolicy", gymnasium.make("HalfCheetah-v5"), learning_starts=300, buffer_size=100_000)
    model.learn(310)

    def steps(count: int = 40) -> float:
        start = time.perf_counter()
        model.learn(count, reset_num_timesteps=False)
        return count / (time.perf_counter() - start)

    def updates(count: int = 40) -> float:
        start = time.perf_counter()
        model.train(gradient_steps=count, batch_size=256)
        return count / (time.perf_counter() - start)

    return lambda seconds: {
        "env_steps_per_second": _median(steps, seconds),
        "updates_per_second": _median(updates, seconds),
        "updates_per_step": 1.0,
    }


def qdax() -> Timing:
    """Prepares DIAYN on brax's HalfCheetah with the settings of QDax's example notebook."""
    started = time.perf_counter()
    import qdax.tasks.brax.v2 as environments
    from qdax.baselines.diayn import DIAYN, DiaynConfig
    from qdax.core.neuroevolution.buffers.buffer import QDTransition, ReplayBuffer
    from qdax.core.neuroevolution.sac_td3_utils import do_iteration_fn

    envs, ratio, skills, iterations = 250, 0.25, 5, 40
    config = DiaynConfig(
        batch_size=256,
        episode_length=100,
        tau=0.005,
        normalize_observations=False,
        learning_rate=3e-4,
        alpha_init=1.0,
        discount=0.97,
        reward_scaling=1.0,
        critic_hidden_layer_size=(256, 256),
        policy_hidden_layer_size=(256, 256),
        fix_alpha=False,
        num_skills=skills,
        descriptor_full_state=False,
    )
    env = environments.create(env_name="halfcheetah_uni", batch_size=envs, episode_length=100, auto_reset=True)
    key, key_reset = jax.random.split(jax.random.key(0))
    state = jax.jit(env.reset)(rng=key_reset)
    sizes = {"observation_dim": env.observation_size + skills, "action_dim": env.action_size}
    dummy = QDTransition.init_dummy(**sizes, descriptor_dim=env.descriptor_length)
    buffer = ReplayBuffer.init(buffer_size=1_000_000, transition=dummy)
    diayn = DIAYN(config=config, action_size=env.action_size)
    learner = diayn.init(
        key,
        action_size=env.action_size,
        observation_size=env.observation_size,
        descriptor_size=env.descriptor_length,
    )
    each = jnp.concatenate([jnp.eye(skills)] * (envs // skills))
    play = functools.partial(diayn.play_step_fn, skills=each, env=env, deterministic=False)
    iterate = functools.partial(
        do_iteration_fn,
        env_batch_size=envs,
        grad_updates_per_step=ratio,
        play_step_fn=play,
        update_fn=diayn.update,
    )

    @jax.jit
    def many(carry: Any) -> Any:
        return jax.lax.scan(lambda carry, _: (iterate(*carry)[:-1], None), carry, None, length=iterations)[0]

    carry = [jax.block_until_ready(many((learner, state, buffer)))]
    startup = time.perf_counter() - started
    updates = int(ratio * envs) / envs

    def steps() -> float:
        start = time.perf_counter()
        carry[0] = jax.block_until_ready(many(carry[0]))
        return envs * iterations / (time.perf_counter() - start)

    def timing(seconds: float) -> dict[str, Any]:
        rate = _median(steps, seconds)
        speeds = {"env_steps_per_second": rate, "updates_per_second": updates * rate, "updates_per_step": updates}
        return {**speeds, "envs": envs, "goal_dim": skills, "startup_seconds": startup}

    return timing


PEERS = {
    "sb3": Peer(("torch", "stable-baselines3"), stable_baselines3),
    "qdax": Peer(("qdax", "brax"), qdax),
}


def prepare(name: str) -> Timing:
    peer = PEERS[name]
    try:
        with contextlib.redirect_stdout(sys.stderr):  # some print while they are imported
            timing = peer.prepare()
    except ImportError as error:
        raise UsageError(f"--peer {name} needs {error.name}; valid: pip install {' '.join(peer.packages)}") from None
    return lambda seconds: {**timing(seconds), "versions": {p: version(p) for p in peer.packages}}
