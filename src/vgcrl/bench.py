"""Speeds of this machine: the learner against its floor and a peer, the environment, the replay's size."""

import itertools
import os
import platform
import time
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from vgcrl import learner, replay
from vgcrl.agents.sac import sac
from vgcrl.config import Config, resolve
from vgcrl.envs import vectorise
from vgcrl.errors import UsageError
from vgcrl.goals import Discrete
from vgcrl.networks import Linear
from vgcrl.posteriors import POSTERIORS, Build, Seen
from vgcrl.program import compiler_options
from vgcrl.relabel import NONE
from vgcrl.types import Knobs, Transition

PEERS = {"sb3": ("torch", "stable-baselines3")}
OBS, ACTIONS, GOALS, BATCH, WIDTH = 17, 6, 10, 256, 256


def _per_second(run: Callable[[int], Any], count: int, repeats: int = 5) -> float:
    """The median rate of `run(count)`, after a first call that compiles."""
    jax.block_until_ready(run(2))
    rates = []
    for _ in range(repeats):
        start = time.perf_counter()
        jax.block_until_ready(run(count))
        rates.append(count / (time.perf_counter() - start))
    return float(np.median(rates))


def _example(count: int) -> Transition:
    obs, action = jnp.zeros((count, OBS)), jnp.zeros((count, ACTIONS))
    return Transition(obs, action, obs, jnp.zeros(count, jnp.int32), jnp.zeros(count, bool))


def _filled(key: jax.Array) -> replay.Replay:
    """Random episodes of 100 steps in eight environments."""
    buffer = replay.init(_example(8), 2_000, 100)

    def add(i: jax.Array, buffer: replay.Replay) -> replay.Replay:
        k = jax.random.fold_in(key, i)
        obs, action = jax.random.normal(k, (2, 8, OBS)), jnp.tanh(jax.random.normal(k, (8, ACTIONS)))
        step = Transition(obs[0], action, obs[1], jnp.arange(8) % GOALS, jnp.zeros(8, bool))
        return replay.add(buffer, step, jnp.full(8, (i + 1) % 100 == 0))

    return jax.jit(lambda b: jax.lax.fori_loop(0, 1_500, add, b))(buffer)


def updates_per_second(runs: int = 1, count: int = 100) -> float:
    """Whole updates of DIAYN: draw a batch, fit q, update SAC; all runs together."""
    goals, key = Discrete(GOALS), jax.random.key(0)
    hidden = (WIDTH, WIDTH)
    agent = sac(OBS, ACTIONS, goals.embed, GOALS, hidden=hidden, discount=0.99, target_rate=0.005, target_entropy=-3.0)
    knobs = Knobs(*(jnp.float32(x) for x in (3e-4, 3e-4, 0.5, jnp.inf, 0)))

    def init(key: jax.Array) -> learner.LearnerState:
        build = Build(OBS, GOALS, hidden, Linear, 1.0, 8, 5.0)
        q = Seen(POSTERIORS["categorical"](key, build), tuple(range(OBS)))
        return learner.init(q, agent, key)

    def many(state: learner.LearnerState, buffer: replay.Replay, count: jax.Array) -> learner.LearnerState:
        def body(i: jax.Array, state: learner.LearnerState) -> learner.LearnerState:
            key_sample, key_update = jax.random.split(jax.random.fold_in(key, i))
            batch, later = replay.sample(buffer, key_sample, BATCH)
            return learner.update(state, batch, later, knobs, key_update, agent=agent, goals=goals, how=NONE)[0]

        return jax.lax.fori_loop(0, count, body, state)

    step = jax.jit(jax.vmap(many, (0, None, None)), compiler_options=compiler_options())
    state, buffer = jax.jit(jax.vmap(init))(jax.random.split(key, runs)), _filled(key)
    return runs * _per_second(lambda n: step(state, buffer, n), count)


def products() -> list[tuple[int, int, int]]:
    """(m, k, n) of every matrix product one update cannot do without."""

    def net(sizes: tuple[int, ...], weights: bool, inputs: bool) -> list[tuple[int, int, int]]:
        """Forward, and backward to weights and inputs where asked."""
        layers = list(itertools.pairwise(sizes))
        forward = [(BATCH, i, o) for i, o in layers]
        to_weights = [(o, BATCH, i) for i, o in layers] if weights else []
        to_inputs = [(BATCH, o, i) for i, o in (layers if inputs else layers[1:] if weights else [])]
        return forward + to_weights + to_inputs

    hidden = (WIDTH, WIDTH)
    q, actor = (OBS, *hidden, GOALS), (OBS + GOALS, *hidden, 2 * ACTIONS)
    critic = (OBS + GOALS + ACTIONS, *hidden, 1)
    fit, next_action, targets = net(q, True, False), net(actor, False, False), 2 * net(critic, False, False)
    return (
        fit
        + next_action
        + targets
        + 2 * net(critic, True, False)
        + net(actor, True, False)
        + 2 * net(critic, False, True)
    )


def floor_per_second(count: int = 100) -> float:
    """How often the bare products of one update can be done."""
    key = jax.random.key(1)
    pairs = [(jax.random.normal(key, (m, k)), jax.random.normal(key, (k, n))) for m, k, n in products()]

    def many(pairs: list[tuple[jax.Array, jax.Array]], count: jax.Array) -> jax.Array:
        def body(_: jax.Array, total: jax.Array) -> jax.Array:
            fresh, total = jax.lax.optimization_barrier((pairs, total))  # so that nothing is hoisted out of the loop
            results = jax.lax.optimization_barrier([a @ b for a, b in fresh])
            return total + 1e-9 * sum(r[0, 0] for r in results)

        return jax.lax.fori_loop(0, count, body, jnp.zeros(()))

    step = jax.jit(many, compiler_options=compiler_options())
    return _per_second(lambda n: step(pairs, n), count)


def stable_baselines3_per_second(count: int = 100) -> float:
    """SAC of stable-baselines3, same batch and networks, without a discriminator."""
    try:
        import gymnasium
        from stable_baselines3 import SAC
    except ImportError as error:
        raise UsageError(f"--peer sb3 needs {error.name}; valid: pip install stable-baselines3 torch") from None

    class Noise(gymnasium.Env):
        observation_space = gymnasium.spaces.Box(-1, 1, (OBS,), np.float32)
        action_space = gymnasium.spaces.Box(-1, 1, (ACTIONS,), np.float32)

        def reset(self, seed: int | None = None, options: Any = None) -> Any:
            return self.observation_space.sample(), {}

        def step(self, action: Any) -> Any:
            return self.observation_space.sample(), 0.0, False, False, {}

    model = SAC("MlpPolicy", Noise(), batch_size=BATCH, learning_starts=300, buffer_size=10_000)
    model.learn(310)
    rates = []
    for _ in range(5):
        start = time.perf_counter()
        model.train(gradient_steps=count, batch_size=BATCH)
        rates.append(count / (time.perf_counter() - start))
    return float(np.median(rates))


def env_steps_per_second(count: int = 2_000) -> float:
    """The 2-D point mass with random actions, 256 side by side."""
    env = vectorise(resolve(Config()).build_env(), 256)

    def body(i: jax.Array, carry: Any) -> Any:
        key = jax.random.fold_in(jax.random.key(0), i)
        return env.step(carry[0], jax.random.uniform(key, (256, 2), minval=-1.0), key)[0], carry[1]

    step = jax.jit(lambda carry, n: jax.lax.fori_loop(0, n, body, carry), compiler_options=compiler_options())
    carry = env.reset(jax.random.key(0))
    return 256 * _per_second(lambda n: step(carry, n), count)


def replay_bytes() -> int:
    """Of a million steps at the sizes above."""
    shapes = jax.eval_shape(lambda: replay.init(_example(8), 125_000, 1_000))
    return sum(x.size * x.dtype.itemsize for x in jax.tree.leaves(shapes))


def bench(peer: str | None) -> dict[str, Any]:
    """Peer and floor are timed before and after our own, so that a drift of the machine shows."""
    if peer is not None and peer not in PEERS:
        raise UsageError(f"--peer {peer!r} is unknown; valid: {', '.join(PEERS)}")
    out: dict[str, Any] = {
        "command": f"vgcrl bench{f' --peer {peer}' if peer else ''}",
        "device": f"{jax.devices()[0].device_kind}, {platform.machine()}, {os.cpu_count()} cores",
        "versions": {name: version(name) for name in ("jax", "jaxlib", *(PEERS[peer] if peer else ()))},
        "sizes": {"batch": BATCH, "hidden": [WIDTH, WIDTH], "observations": OBS, "actions": ACTIONS, "goals": GOALS},
    }
    theirs = [stable_baselines3_per_second()] if peer else []
    floor = [floor_per_second()]
    out["updates_per_second"] = updates_per_second()
    floor.append(floor_per_second())
    theirs += [stable_baselines3_per_second()] if peer else []
    out["floor_per_second"] = floor
    out["share_of_floor"] = out["updates_per_second"] / max(floor)
    if peer:
        out["sb3_updates_per_second"] = theirs
        out["ratio_to_sb3"] = out["updates_per_second"] / max(theirs)
    out["updates_per_second_4_runs"] = updates_per_second(4, 30)
    out["pointmass_steps_per_second"] = env_steps_per_second()
    out["replay_bytes_per_million_steps"] = replay_bytes()
    return out
