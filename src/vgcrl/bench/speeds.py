"""Speeds of this machine: training, the learner alone against its floors, the simulation, and a peer beside them."""

import itertools
import math
import platform
import time
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from vgcrl.bench import peers
from vgcrl.envs import Vectorised, cores
from vgcrl.errors import UsageError
from vgcrl.objective.types import EnvSpec, Transition, key_of_seed
from vgcrl.training import replay
from vgcrl.training.components import build_components
from vgcrl.training.config import Config
from vgcrl.training.devices import compiler_options, over_runs
from vgcrl.training.fields import LARGEST
from vgcrl.training.host_program import compile_config
from vgcrl.training.memory import check_memory
from vgcrl.training.options import Options
from vgcrl.training.program import RunState, learn, without
from vgcrl.training.resolve import resolve

BATCH, WIDTH = 256, 256
ROWS = 2100  # of replay for each environment: two episodes of the robots


def _per_second(run: Callable[[], float], seconds: float) -> float:
    """Returns the median rate of `run`, which does some work, waits for it and returns how much it was.

    A first call, which may compile, is not counted.
    """
    run()
    rates, started = [], time.perf_counter()
    while len(rates) < 5 or time.perf_counter() - started < seconds:
        start = time.perf_counter()
        work = run()
        rates.append(work / (time.perf_counter() - start))
    return float(np.median(rates))


def configuration(env: str, engine: str, runs: int, goals: int, envs: int, ratio: float) -> Config:
    make = partial(Options, "diayn", env, engine=engine, hidden=(WIDTH, WIDTH), batch=BATCH)
    sizes = {"replay": max(600_000, ROWS * envs), "random_steps": 1024, "steps": 10**9}
    if sizes["replay"] > LARGEST:
        raise UsageError(f"--envs {envs} is out of range; valid: an integer from 1 to {LARGEST // ROWS}")
    try:
        config = resolve(make(seeds=runs, goal_dim=goals, envs=envs, updates_per_step=ratio, **sizes))
    except UsageError as error:
        raise UsageError(str(error).replace("--seeds", "--runs")) from None
    check_memory(config, config.specification)
    return config


class Training:
    """Times DIAYN in the real training loop."""

    def __init__(self, config: Config):
        started = time.perf_counter()
        self.program, self.config = compile_config(config), config
        components = build_components(config)
        self.learn = over_runs(lambda run, key: learn(components, run, key), config.runs, axes=(0, 0))
        self.state: RunState = self.program.init()
        self.done = 0
        first = -(-1024 // (config.schedule[0] * config.envs)) + 2
        self._advance(first)
        self.startup = time.perf_counter() - started

    def _advance(self, iterations: int) -> None:
        self.state = jax.block_until_ready(self.program.advance(self.state, self.done, iterations))
        self.done += iterations

    def steps_per_second(self, seconds: float) -> float:
        """Returns the environment steps per second of all runs together."""
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
        """Returns the updates per second of the learner alone, all runs together, on a replay that stays the same."""

        def run() -> float:
            rest, state, calls = without(self.state, "scene"), self.state.learner, 8
            for _ in range(calls):
                state, _ = self.learn(rest._replace(learner=state), self.state.key)
            jax.block_until_ready(state)
            return calls * self.config.schedule[1] * self.config.seeds

        return _per_second(run, seconds)


def simulation_per_second(config: Config, seconds: float, count: int) -> float:
    """Returns the steps per second of `count` environments alone under random actions, observations included."""
    actions = config.specification.action_dim
    if config.native:
        return native_per_second(Vectorised(config.build_env(worlds=count), count), seconds, 20)
    envs = config.build_host_envs(1, count)
    keys = np.zeros((1, 2), np.uint32)
    envs.reset(keys)
    action = np.random.default_rng(0).uniform(-1, 1, (8, 1, count, actions)).astype(np.float32)
    clock = itertools.count()

    def run() -> float:
        for i in range(8):
            envs.step(action[i], keys, next(clock))
        return 8 * count

    return _per_second(run, seconds)


def native_per_second(env: Vectorised, seconds: float, steps: int) -> float:
    """Returns the steps per second of a native environment under random actions, with `steps` of them in one call."""

    def body(i: jax.Array, state: Any) -> Any:
        key = jax.random.fold_in(key_of_seed(0), i)
        return env.step(state, jax.random.uniform(key, (env.count, env.spec.action_dim), minval=-1.0), key)[0]

    step = jax.jit(lambda state: jax.lax.fori_loop(0, steps, body, state), compiler_options=compiler_options())
    box = [env.reset(key_of_seed(0))[0]]

    def run() -> float:
        box[0] = jax.block_until_ready(step(box[0]))
        return env.count * steps

    return _per_second(run, seconds)


def products(spec: EnvSpec, goals: int) -> list[tuple[int, int, int]]:
    """Returns (m, k, n) of every matrix product that one update cannot do without."""

    def net(sizes: tuple[int, ...], weights: bool, inputs: bool) -> list[tuple[int, int, int]]:
        """Returns the products of one network: forward, and backward to weights and inputs where asked."""
        layers = list(itertools.pairwise(sizes))
        forward = [(BATCH, i, o) for i, o in layers]
        to_weights = [(o, BATCH, i) for i, o in layers] if weights else []
        to_inputs = [(BATCH, o, i) for i, o in (layers if inputs else layers[1:] if weights else [])]
        return forward + to_weights + to_inputs

    hidden = (WIDTH, WIDTH)
    obs, actions = spec.obs_dim, spec.action_dim
    q, actor = (obs, *hidden, goals), (obs + goals, *hidden, 2 * actions)
    critic = (obs + goals + actions, *hidden, 1)
    fit, next_action, targets = net(q, True, False), net(actor, False, False), 2 * net(critic, False, False)
    return (
        fit
        + next_action
        + targets
        + 2 * net(critic, True, False)
        + net(actor, True, False)
        + 2 * net(critic, False, True)
    )


def products_per_second(spec: EnvSpec, goals: int, seconds: float, count: int = 50) -> float:
    """Returns how many times per second the products of one update alone can be done: the floor of arithmetic."""
    key = key_of_seed(1)
    pairs = [(jax.random.normal(key, (m, k)), jax.random.normal(key, (k, n))) for m, k, n in products(spec, goals)]

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


def traffic(spec: EnvSpec, goals: int) -> int:
    """Returns the bytes one update must move: weights, gradients, both moments and targets, read and written once."""
    hidden = (WIDTH, WIDTH)

    def size(*sizes: int) -> int:
        return sum((i + 1) * o for i, o in itertools.pairwise(sizes))

    obs, actions = spec.obs_dim, spec.action_dim
    critics = 2 * size(obs + goals + actions, *hidden, 1)
    trained = size(obs, *hidden, goals) + size(obs + goals, *hidden, 2 * actions) + critics
    return 4 * (8 * trained + 2 * critics)


def bytes_per_second(seconds: float) -> float:
    """Returns the bandwidth of memory, measured by reading and writing a large array."""
    size = 2**28 if jax.default_backend() != "cpu" else 2**25
    step = jax.jit(lambda x: x + 1.0, donate_argnums=0)
    box = [jnp.zeros(size)]

    def run() -> float:
        box[0] = jax.block_until_ready(step(box[0]))
        return 8 * size

    return _per_second(run, seconds)


def replay_bytes(spec: EnvSpec) -> int:
    """Returns the bytes of a replay that holds a million steps."""
    obs, action = jnp.zeros((8, spec.obs_dim)), jnp.zeros((8, spec.action_dim))
    example = Transition(obs, action, obs, jnp.zeros(8, jnp.int32), jnp.zeros(8, bool))
    shapes = jax.eval_shape(lambda: replay.init(example, 125_000, 1_000))
    return sum(x.size * x.dtype.itemsize for x in jax.tree.leaves(shapes))


def training_row(config: Config, seconds: float, bandwidth: float) -> dict[str, Any]:
    training, spec = Training(config), config.specification
    steps = training.steps_per_second(seconds)
    alone = training.updates_per_second(seconds / 2)
    return {
        "env": config.env,
        "engine": config.engine,
        "runs": config.seeds,
        "goal_dim": config.goal_dim,
        "envs": config.envs,
        "updates_per_step": config.updates_per_step,
        "startup_seconds": training.startup,
        "env_steps_per_second": steps,
        "updates_per_second": config.updates_per_step * steps,
        "learner_alone_updates_per_second": alone,
        "share_of_memory_floor": alone * traffic(spec, config.goal_dim) / bandwidth,
    }


def bench(
    peer: str | None,
    env: str,
    engines: tuple[str, ...],
    runs: tuple[int, ...],
    goals: tuple[int, ...],
    envs: int | None,
    ratio: float | None,
    seconds: float,
) -> dict[str, Any]:
    """Times training, the learner alone, the simulation and a peer, and returns all that was measured.

    There is a row per engine and number of runs, and per |G| for the first number of runs. The peer is timed before and
    after, so that drift shows.
    """
    if peer is not None and peer not in peers.PEERS:
        raise UsageError(f"--peer {peer!r} is unknown; valid: {', '.join(peers.PEERS)}")
    jax.config.update("jax_enable_compilation_cache", False)  # start-up is measured as a newcomer has it
    gpu = jax.default_backend() != "cpu"
    ratio = ratio if ratio is not None else 0.25 if gpu else 1.0
    size = envs if envs is not None else 256 if gpu else 8
    shapes = [(r, goals[0], size if r < 16 or envs is not None else size // 2) for r in runs]
    shapes += [(runs[0], g, size) for g in goals[1:]]
    configs = [configuration(env, engine, *shape, ratio) for engine in engines for shape in shapes]
    spec = configs[0].specification
    timing = peers.prepare(peer) if peer else None
    theirs = [timing(seconds)] if timing else []
    bandwidth = bytes_per_second(seconds / 4)
    floor = products_per_second(spec, goals[0], seconds / 2)
    rows = [training_row(config, seconds, bandwidth) for config in configs]
    theirs += [timing(seconds)] if timing else []
    out: dict[str, Any] = {
        "device": f"{jax.devices()[0].device_kind}, {platform.machine()}, {cores()} cores",
        "versions": {name: version(name) for name in ("jax", "jaxlib", "mujoco") if find_spec(name)},
        "sizes": {"batch": BATCH, "hidden": [WIDTH, WIDTH], "env": env, "method": "diayn"},
        "training": rows,
        "products_per_second": floor,
        "share_of_product_floor": rows[0]["learner_alone_updates_per_second"] / floor / rows[0]["runs"],
        "memory_bytes_per_second": bandwidth,
        "simulation_steps_per_second": {
            config.engine: simulation_per_second(config, seconds / 2, 4096 if config.native else 1024)
            for config in configs[:: len(shapes)]
        },
        "replay_bytes_per_million_steps": replay_bytes(spec),
    }
    if peer:
        best = {k: max(t[k] for t in theirs) for k in ("env_steps_per_second", "updates_per_second")}
        out["peer"] = {"name": peer, "measured": theirs}
        for row in rows:
            row["ratio_to_peer"] = {k: row[k] / best[k] for k in best}
            row["ratio_to_peer"]["learner_alone"] = row["learner_alone_updates_per_second"] / best["updates_per_second"]
    return out
