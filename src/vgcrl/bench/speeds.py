"""Speeds of this machine: training, the learner alone against its floors, the simulation, and a peer beside them."""

import itertools
import math
import platform
import time
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from vgcrl.bench import peers
from vgcrl.envs import Vectorised, cores
from vgcrl.errors import UsageError
from vgcrl.objective.types import Transition
from vgcrl.training import replay
from vgcrl.training.config import Config
from vgcrl.training.devices import compiler_options
from vgcrl.training.host_program import HostProgram
from vgcrl.training.options import Options
from vgcrl.training.program import RunState, without
from vgcrl.training.resolve import resolve

OBS, ACTIONS, BATCH, WIDTH = 17, 6, 256, 256


def _per_second(run: Callable[[], float], seconds: float) -> float:
    """The median rate of `run`, which does some work, waits for it and says how much; after one call not counted."""
    run()
    rates, started = [], time.perf_counter()
    while len(rates) < 5 or time.perf_counter() - started < seconds:
        start = time.perf_counter()
        work = run()
        rates.append(work / (time.perf_counter() - start))
    return float(np.median(rates))


def configuration(runs: int, goals: int, envs: int, ratio: float) -> Config:
    make = partial(Options, "diayn", "HalfCheetah", engine="mujoco", hidden=(WIDTH, WIDTH), batch=BATCH)
    sizes = {"replay": 600_000, "random_steps": 1024, "steps": 10**9}
    try:
        return resolve(make(seeds=runs, goal_dim=goals, envs=envs, updates_per_step=ratio, **sizes))
    except UsageError as error:
        raise UsageError(str(error).replace("--seeds", "--runs")) from None


class Training:
    """DIAYN on HalfCheetah, in training: the real loop, not a model of it."""

    def __init__(self, config: Config):
        started = time.perf_counter()
        self.host, self.config = HostProgram(config), config
        self.state: RunState = self.host.init()
        self.done = 0
        first = -(-1024 // (config.schedule[0] * config.envs)) + 2
        self._advance(first)
        self.startup = time.perf_counter() - started

    def _advance(self, iterations: int) -> None:
        self.state = jax.block_until_ready(self.host.advance(self.state, self.done, iterations))
        self.done += iterations

    def steps_per_second(self, seconds: float) -> float:
        """Of all runs together."""
        config, collects = self.config, self.config.schedule[0]
        start, before = time.perf_counter(), self.done
        self._advance(2)
        each = (time.perf_counter() - start) / (self.done - before)
        count = max(1, math.ceil(seconds / 5 / each))

        def run() -> float:
            self._advance(count)
            return count * collects * config.envs * config.seeds

        return _per_second(run, seconds)

    def updates_per_second(self, seconds: float) -> float:
        """Of the learner alone, on the same replay."""

        def run() -> float:
            rest, state, calls = without(self.state, "learner"), self.state.learner, 8
            for _ in range(calls):
                state, _ = self.host.learn(state, rest, jnp.int32(self.done))
            self.state = jax.block_until_ready(rest._replace(learner=state))
            return calls * self.config.schedule[1] * self.config.seeds

        return _per_second(run, seconds)


def simulation_per_second(seconds: float, count: int) -> float:
    """HalfCheetah on all cores, observations assembled."""
    config = resolve(Options("diayn", "HalfCheetah", engine="mujoco"))
    envs = config.build_host_envs(1, count)
    keys = np.zeros((1, 2), np.uint32)
    envs.reset(keys)
    action = np.random.default_rng(0).uniform(-1, 1, (8, 1, count, ACTIONS)).astype(np.float32)
    clock = itertools.count()

    def run() -> float:
        for i in range(8):
            envs.step(action[i], keys, next(clock))
        return 8 * count

    return _per_second(run, seconds)


def products(goals: int) -> list[tuple[int, int, int]]:
    """(m, k, n) of every matrix product one update cannot do without."""

    def net(sizes: tuple[int, ...], weights: bool, inputs: bool) -> list[tuple[int, int, int]]:
        """Forward, and backward to weights and inputs where asked."""
        layers = list(itertools.pairwise(sizes))
        forward = [(BATCH, i, o) for i, o in layers]
        to_weights = [(o, BATCH, i) for i, o in layers] if weights else []
        to_inputs = [(BATCH, o, i) for i, o in (layers if inputs else layers[1:] if weights else [])]
        return forward + to_weights + to_inputs

    hidden = (WIDTH, WIDTH)
    q, actor = (OBS, *hidden, goals), (OBS + goals, *hidden, 2 * ACTIONS)
    critic = (OBS + goals + ACTIONS, *hidden, 1)
    fit, next_action, targets = net(q, True, False), net(actor, False, False), 2 * net(critic, False, False)
    return (
        fit
        + next_action
        + targets
        + 2 * net(critic, True, False)
        + net(actor, True, False)
        + 2 * net(critic, False, True)
    )


def products_per_second(goals: int, seconds: float, count: int = 50) -> float:
    """How often the bare products of one update can be done: the floor of arithmetic, for one run."""
    key = jax.random.key(1)
    pairs = [(jax.random.normal(key, (m, k)), jax.random.normal(key, (k, n))) for m, k, n in products(goals)]

    def repeat(pairs: list[tuple[jax.Array, jax.Array]]) -> jax.Array:
        def body(_: jax.Array, total: jax.Array) -> jax.Array:
            fresh, total = jax.lax.optimization_barrier((pairs, total))  # so that nothing is hoisted out of the loop
            results = jax.lax.optimization_barrier([a @ b for a, b in fresh])
            return total + 1e-9 * sum(r[0, 0] for r in results)

        return jax.lax.fori_loop(0, count, body, jnp.zeros(()))

    step = jax.jit(repeat, compiler_options=compiler_options())

    def run() -> float:
        jax.block_until_ready(step(pairs))
        return count

    return _per_second(run, seconds)


def traffic(goals: int) -> int:
    """Bytes one update must move: weights, gradients and both moments read and written once, targets too."""
    hidden = (WIDTH, WIDTH)

    def size(*sizes: int) -> int:
        return sum((i + 1) * o for i, o in itertools.pairwise(sizes))

    critics = 2 * size(OBS + goals + ACTIONS, *hidden, 1)
    trained = size(OBS, *hidden, goals) + size(OBS + goals, *hidden, 2 * ACTIONS) + critics
    return 4 * (8 * trained + 2 * critics)


def bytes_per_second(seconds: float) -> float:
    """Of memory: reading and writing a large array."""
    size = 2**28 if jax.default_backend() != "cpu" else 2**25
    step = jax.jit(lambda x: x + 1.0, donate_argnums=0)
    box = [jnp.zeros(size)]

    def run() -> float:
        box[0] = jax.block_until_ready(step(box[0]))
        return 8 * size

    return _per_second(run, seconds)


def pointmass_per_second(seconds: float, count: int = 2_000) -> float:
    """The 2-D point mass with random actions, 256 side by side."""
    env = Vectorised(resolve(Options()).build_env(), 256)

    def body(i: jax.Array, state: Any) -> Any:
        key = jax.random.fold_in(jax.random.key(0), i)
        return env.step(state, jax.random.uniform(key, (256, 2), minval=-1.0), key)[0]

    step = jax.jit(lambda state: jax.lax.fori_loop(0, count, body, state), compiler_options=compiler_options())
    state, _ = env.reset(jax.random.key(0))

    def run() -> float:
        jax.block_until_ready(step(state))
        return 256 * count

    return _per_second(run, seconds)


def replay_bytes() -> int:
    """Of a million steps at the sizes above."""
    obs, action = jnp.zeros((8, OBS)), jnp.zeros((8, ACTIONS))
    example = Transition(obs, action, obs, jnp.zeros(8, jnp.int32), jnp.zeros(8, bool))
    shapes = jax.eval_shape(lambda: replay.init(example, 125_000, 1_000))
    return sum(x.size * x.dtype.itemsize for x in jax.tree.leaves(shapes))


def training_row(config: Config, seconds: float, bandwidth: float) -> dict[str, Any]:
    training = Training(config)
    steps = training.steps_per_second(seconds)
    alone = training.updates_per_second(seconds / 2)
    return {
        "runs": config.seeds,
        "goal_dim": config.goal_dim,
        "envs": config.envs,
        "updates_per_step": config.updates_per_step,
        "startup_seconds": training.startup,
        "env_steps_per_second": steps,
        "updates_per_second": config.updates_per_step * steps,
        "learner_alone_updates_per_second": alone,
        "share_of_memory_floor": alone * traffic(config.goal_dim) / bandwidth,
    }


def bench(
    peer: str | None,
    runs: tuple[int, ...],
    goals: tuple[int, ...],
    envs: int | None,
    ratio: float | None,
    seconds: float,
) -> dict[str, Any]:
    """One row per number of runs, and per |G| for one run. The peer is timed before and after, so that drift shows."""
    if peer is not None and peer not in peers.PEERS:
        raise UsageError(f"--peer {peer!r} is unknown; valid: {', '.join(peers.PEERS)}")
    jax.config.update("jax_enable_compilation_cache", False)  # start-up is measured as a newcomer has it
    gpu = jax.default_backend() != "cpu"
    ratio = ratio if ratio is not None else 0.25 if gpu else 1.0
    size = envs if envs is not None else 256 if gpu else 8
    shapes = [(r, goals[0], size if r < 16 or envs is not None else size // 2) for r in runs]
    configs = [configuration(*shape, ratio) for shape in (*shapes, *((runs[0], g, size) for g in goals[1:]))]
    timing = peers.prepare(peer) if peer else None
    theirs = [timing(seconds)] if timing else []
    bandwidth = bytes_per_second(seconds / 4)
    floor = products_per_second(goals[0], seconds / 2)
    rows = [training_row(config, seconds, bandwidth) for config in configs]
    theirs += [timing(seconds)] if timing else []
    out: dict[str, Any] = {
        "device": f"{jax.devices()[0].device_kind}, {platform.machine()}, {cores()} cores",
        "versions": {name: version(name) for name in ("jax", "jaxlib", "mujoco")},
        "sizes": {"batch": BATCH, "hidden": [WIDTH, WIDTH], "env": "HalfCheetah", "method": "diayn"},
        "training": rows,
        "products_per_second": floor,
        "share_of_product_floor": rows[0]["learner_alone_updates_per_second"] / floor / rows[0]["runs"],
        "memory_bytes_per_second": bandwidth,
        "simulation_steps_per_second": simulation_per_second(seconds / 2, 1024),
        "pointmass_steps_per_second": pointmass_per_second(seconds / 2),
        "replay_bytes_per_million_steps": replay_bytes(),
    }
    if peer:
        best = {k: max(t[k] for t in theirs) for k in ("env_steps_per_second", "updates_per_second")}
        out["peer"] = {"name": peer, "measured": theirs}
        for row in rows:
            row["ratio_to_peer"] = {k: row[k] / best[k] for k in best}
            row["ratio_to_peer"]["learner_alone"] = row["learner_alone_updates_per_second"] / best["updates_per_second"]
    return out
