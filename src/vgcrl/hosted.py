"""The same program with environments on the host: a Python loop around the parts of `program`.

While the host simulates, the device learns: the updates are launched from a second thread before the actions are
awaited, and neither needs the other's result until both are done.
"""

from concurrent.futures import ThreadPoolExecutor
from functools import cached_property, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from vgcrl import program, replay
from vgcrl.config import Config
from vgcrl.devices import over_runs
from vgcrl.envs import Worlds
from vgcrl.goals import current
from vgcrl.program import Program, RunState, without
from vgcrl.rollout import begin, follow, sample_goals
from vgcrl.types import Step, seeded


def _keys(key: Array) -> np.ndarray:
    return np.asarray(jax.random.key_data(key))


def _numbers(action: Array) -> np.ndarray:
    """A policy that has diverged rests: what is no number does not reach the simulator."""
    return np.nan_to_num(np.asarray(action))


class Host:
    """All runs of a configuration, and their environments."""

    def __init__(self, config: Config):
        self.config, self.parts = config, program.take_apart(config)
        self.seeds, self.knobs = program.run_axis(config)
        self.runs = len(self.seeds)
        self.thread = ThreadPoolExecutor(1, "learn")
        self.examiners: dict[tuple[int, int], tuple[Worlds, dict[str, Any]]] = {}
        p, self.many = self.parts, partial(over_runs, runs=self.runs)

        def decide(run: RunState, clock: Array) -> Array:
            return program.decide(p, run, clock, program.keys_at(run, clock).act)

        def learn(state: Any, run: RunState, clock: Array) -> Any:
            run = run._replace(learner=state)
            return program.learn(p, run, program.keys_at(run, clock).learn)

        def turn(run: RunState, state: Any, action: Array, out: Step, clock: Array) -> tuple[RunState, Array]:
            """Take in what came of the actions, and choose the next ones."""
            run = run._replace(learner=state)
            run = program.absorb(p, run, (), action, out, clock, program.keys_at(run, clock).goals)
            return without(run, "learner"), decide(run, clock + 1)

        def afresh(run: RunState, obs: Array) -> RunState:
            key = program.keys_at(run, ~jnp.sum(run.replay.head)).goals  # below every clock of training
            z = sample_goals(current(p.goals, run.learner.q), key, config.envs)
            return run._replace(replay=replay.cut(run.replay), scene=run.scene._replace(obs=obs, z=z))

        many = self.many
        self.start = many(partial(program.init, p), axes=(0, 0, 0))
        self.decide = many(decide, axes=(0, None))
        self.learn = many(learn, axes=(0, 0, None), donate=(0,))
        self.turn = many(turn, axes=(0, 0, 0, 0, None), donate=(0,))
        self.best = many(jax.vmap(partial(program.best, p), (None, 0, 0)), axes=(0, 0, None))
        self.afresh = many(afresh, axes=(0, 0), donate=(0,))

    @cached_property
    def worlds(self) -> Worlds:
        return self.config.build_worlds(self.runs, self.config.envs)

    def init(self) -> RunState:
        keys = jax.vmap(lambda seed: jax.random.split(seeded(seed), 6)[0])(self.seeds)
        return self.start(self.seeds, self.knobs, jnp.asarray(self.worlds.reset(_keys(keys))))

    def shapes(self) -> RunState:
        obs = jax.ShapeDtypeStruct((self.runs, self.config.envs, self.parts.spec.obs_dim), jnp.float32)
        return jax.eval_shape(jax.vmap(partial(program.init, self.parts)), self.seeds, self.knobs, obs)

    def advance(self, runs: RunState, first: int, count: int) -> RunState:
        p, keys = self.parts, _keys(runs.key)
        action = self.decide(runs, np.int32(first * p.collects))
        for clock in range(first * p.collects, (first + count) * p.collects):
            i, j = divmod(clock, p.collects)
            now = np.int32(clock)
            state, rest = runs.learner, without(runs, "learner")
            learning = j == p.collects - 1 and program.enough(p, i)
            learned = self.thread.submit(self.learn, state, rest, now) if learning else None
            out = self.worlds.step(_numbers(action), keys, clock)
            if learned is not None:
                state, info = learned.result()
                rest = rest._replace(info=info)
            rest, action = self.turn(rest, state, action, out, now)
            runs = rest._replace(learner=state)
        return runs

    def examine(self, episodes: int, targets: int) -> tuple[Worlds, dict[str, Any]]:
        """Environments and compiled parts for evaluations of one size."""
        key = episodes, targets
        if key not in self.examiners:
            part = program.examination(self.parts, episodes)

            def act(run: RunState, obs: Array, z: Array) -> Array:
                return jax.vmap(partial(part.act, run))(obs, z)

            def turn(run: RunState, tally: Any, action: Array, out: Step, z: Array) -> tuple[Any, Array]:
                tally = follow(tally, action, out, z, part.measure(run))
                return tally, act(run, tally.obs, z)

            def first(run: RunState, obs: Array, z: Array) -> tuple[Any, Array]:
                tally = begin(obs, z, self.parts.spec.action_dim, part.measure(run))
                return tally, act(run, tally.obs, z)

            aimed = None if targets else 0
            parts = {
                "plan": self.many(part.plan, axes=(0, aimed)),
                "first": self.many(first, axes=(0, 0, 0)),
                "turn": self.many(turn, axes=(0, 0, 0, 0, 0), donate=(1,)),
                "conclude": self.many(part.conclude, axes=(0, 0, 0, aimed)),
            }
            self.examiners[key] = self.config.build_worlds(self.runs, episodes + (targets or episodes)), parts
        return self.examiners[key]

    def evaluate(self, runs: RunState, targets: Array | None, episodes: int | None = None) -> dict[str, Any]:
        """Without targets those are states of rest from the environment's own starts."""
        count = episodes or self.config.evaluate_episodes
        worlds, part = self.examine(count, 0 if targets is None else targets.shape[0])
        keys = _keys(runs.key_evaluation)
        light = without(runs, "replay", "scene")
        aims = jnp.asarray(worlds.reset(keys ^ 1)[:, :count]) if targets is None else targets
        obs = jnp.asarray(worlds.reset(keys))
        z = part["plan"](light, aims)
        tally, action = part["first"](light, obs, z)
        for clock in range(worlds.spec.horizon):
            out = worlds.step(_numbers(action), keys, clock)
            tally, action = part["turn"](light, tally, action, out, z)
        return part["conclude"](light, tally, z, aims)

    def watch(self, runs: RunState, z: Array) -> np.ndarray:
        worlds, keys = self.config.build_worlds(self.runs, z.shape[0]), _keys(runs.key_evaluation) ^ 2
        light = without(runs, "replay", "scene")
        path = [worlds.reset(keys)]
        obs = path[0]
        for clock in range(worlds.spec.horizon):
            out = worlds.step(_numbers(self.best(light, obs, z)), keys, clock)
            path.append(out.next_obs)
            obs = out.obs
        worlds.close()
        return np.stack(path, axis=1)

    def enter(self, runs: RunState, saved: dict[str, Any]) -> tuple[RunState, bool]:
        if self.worlds.load(saved):
            return runs, True
        keys = _keys(jax.vmap(jax.random.fold_in, (0, 0))(runs.key, runs.replay.head.sum(axis=1)))
        return self.afresh(runs, jnp.asarray(self.worlds.reset(keys))), False


def compile_hosted(config: Config) -> Program:
    host = Host(config)
    p = host.parts
    return Program(
        config,
        p.spec,
        p.goals,
        p.collects * config.envs,
        init=host.init,
        advance=host.advance,
        evaluate=host.evaluate,
        best=partial(program.best, p),
        watch=host.watch,
        shapes=host.shapes,
        save_worlds=lambda: host.worlds.save(),
        enter=host.enter,
    )


def compile_config(config: Config) -> Program:
    return (program.compile_native if config.native else compile_hosted)(config)
