"""The program with environments on the host: a Python loop around the functions of `program`.

While the host simulates, the device learns: the updates are launched from a second thread before the actions are
awaited, and neither needs the other's result until both are done.
"""

from concurrent.futures import ThreadPoolExecutor
from functools import cached_property, partial
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from vgcrl.envs import HostEnvs
from vgcrl.envs.contract import GoalEnvs, generator
from vgcrl.envs.goal_envs import OwnSuccess
from vgcrl.errors import UsageError
from vgcrl.measure.rollout import Pursuit, begin, follow, places, sample_goals
from vgcrl.objective.goals import current
from vgcrl.objective.types import Step, key_of_seed
from vgcrl.training import program, replay
from vgcrl.training.config import Config
from vgcrl.training.evaluation import evaluation_parts
from vgcrl.training.native_program import NativeProgram
from vgcrl.training.program import Program, RunState, without


def _keys(key: Array) -> np.ndarray:
    return np.asarray(jax.random.key_data(key))


def _finite_actions(action: Array) -> np.ndarray:
    """Returns the actions with 0 for what is not finite, so that a policy that has diverged rests."""
    return np.nan_to_num(np.asarray(action))


def _draw_noise(keys: np.ndarray, clock: int, shape: tuple[int, int]) -> np.ndarray:
    """Returns standard normal noise for every run at one step of an evaluation, (run, episode, action)."""
    return np.stack([generator(key ^ 3, clock).standard_normal(shape, np.float32) for key in keys])


def _own_goals(envs: HostEnvs, obs: Array, first: int) -> Array:
    """Returns states with the environment's own goals achieved, (run, episode, obs), for episodes from `first` on."""
    goals = cast(GoalEnvs, envs).desired()[:, first:]
    return obs[:, first:, :].at[..., jnp.array(envs.spec.goal)].set(jnp.asarray(goals))


class HostProgram(Program):
    """A program with environments on the host. They keep their own state: `advance` goes on from the newest runs."""

    def __init__(self, config: Config):
        super().__init__(config)
        self.thread = ThreadPoolExecutor(1, "learn")
        self._evaluators: dict[tuple[int, int], tuple[HostEnvs, dict[str, Any]]] = {}
        p = self.parts

        def decide(run: RunState, clock: Array) -> Array:
            return program.decide(p, run, clock, program.keys_at(run, clock).act)

        def learn(state: Any, run: RunState, clock: Array) -> Any:
            run = run._replace(learner=state)
            return program.learn(p, run, program.keys_at(run, clock).learn)

        def observe_and_act(
            run: RunState, state: Any, action: Array, out: Step, clock: Array
        ) -> tuple[RunState, Array]:
            """Add the result of the actions to the run, and choose the next actions."""
            run = run._replace(learner=state)
            run = program.absorb(p, run, (), action, out, clock, program.keys_at(run, clock).goals)
            return without(run, "learner"), decide(run, clock + 1)

        def restart_episodes(run: RunState, obs: Array) -> RunState:
            """Returns the run at the start of new episodes, with new goals."""
            key = program.keys_at(run, ~jnp.sum(run.replay.head)).goals  # below every clock of training
            z = sample_goals(current(p.goals, run.learner.q), key, config.envs)
            return run._replace(replay=replay.cut(run.replay), scene=run.scene._replace(obs=obs, z=z))

        for_all_runs = self.for_all_runs
        self.start = for_all_runs(partial(program.init, p), axes=(0, 0, 0))
        self.decide = for_all_runs(decide, axes=(0, None))
        self.learn = for_all_runs(learn, axes=(0, 0, None), donate=(0,))
        self.observe_and_act = for_all_runs(observe_and_act, axes=(0, 0, 0, 0, None), donate=(0,))
        self.act_for_all = for_all_runs(jax.vmap(partial(program.act, p), (None, 0, 0, 0)), axes=(0, 0, None, 0))
        self.restart_episodes = for_all_runs(restart_episodes, axes=(0, 0), donate=(0,))

    @cached_property
    def envs(self) -> HostEnvs:
        """The environments that are trained in, made when they are first used."""
        return self.config.build_host_envs(self.config.runs, self.config.envs)

    def init(self) -> RunState:
        keys = jax.vmap(lambda seed: jax.random.split(key_of_seed(seed), 6)[0])(self.seeds)
        return self.start(self.seeds, self.knobs, jnp.asarray(self.envs.reset(_keys(keys))))

    def shapes(self) -> RunState:
        obs = jax.ShapeDtypeStruct((self.config.runs, self.config.envs, self.parts.spec.obs_dim), jnp.float32)
        return jax.eval_shape(jax.vmap(partial(program.init, self.parts)), self.seeds, self.knobs, obs)

    def advance(self, runs: RunState, first: int, count: int) -> RunState:
        """Returns the runs after the iterations first, …, first + count − 1.

        In the last step of an iteration the device learns while the host simulates.
        """
        p, keys = self.parts, _keys(runs.key)
        action = self.decide(runs, np.int32(first * p.collects))
        for clock in range(first * p.collects, (first + count) * p.collects):
            i, j = divmod(clock, p.collects)
            now = np.int32(clock)
            state, rest = runs.learner, without(runs, "learner")
            learning = j == p.collects - 1 and program.enough(p, i)
            learned = self.thread.submit(self.learn, state, rest, now) if learning else None
            out = self.envs.step(_finite_actions(action), keys, clock)
            if learned is not None:
                state, info = learned.result()
                rest = rest._replace(info=info)
            rest, action = self.observe_and_act(rest, state, action, out, now)
            runs = rest._replace(learner=state)
        return runs

    def evaluators(self, episodes: int, targets: int) -> tuple[HostEnvs, dict[str, Any]]:
        """Returns environments and compiled functions for evaluations of one size; they are kept for the next call."""
        key = episodes, targets
        if key not in self._evaluators:
            part = evaluation_parts(self.parts, episodes)

            def act(run: RunState, obs: Array, pursued: Pursuit, noise: Array | None) -> Array:
                return jax.vmap(partial(part.act, run))(obs, pursued, noise)

            def observe_and_act(
                run: RunState, stats: Any, action: Array, out: Step, pursued: Pursuit, noise: Array | None
            ) -> tuple[Any, ...]:
                stats = follow(stats, action, out, pursued, part.measure(run))
                return stats, act(run, stats.obs, pursued, noise), places(stats, self.parts.spec)

            def first(run: RunState, obs: Array, pursued: Pursuit, noise: Array | None) -> tuple[Any, Array]:
                stats = begin(obs, pursued, self.parts.spec.action_dim, part.measure(run))
                return stats, act(run, stats.obs, pursued, noise)

            aimed = None if targets else 0
            parts = {
                "plan": self.for_all_runs(part.plan, axes=(0, aimed)),
                "first": self.for_all_runs(first, axes=(0, 0, 0, 0)),
                "observe_and_act": self.for_all_runs(observe_and_act, axes=(0, 0, 0, 0, 0, 0), donate=(1,)),
                "conclude": self.for_all_runs(part.conclude, axes=(0, 0, 0, 0, aimed)),
            }
            self._evaluators[key] = (
                self.config.build_host_envs(self.config.runs, episodes + (targets or episodes)),
                parts,
            )
        return self._evaluators[key]

    def evaluate(
        self, runs: RunState, targets: Array | None = None, episodes: int | None = None, noise: bool = False
    ) -> dict[str, Any]:
        """Returns the metrics of every run, (run, ...). By default the target states are states with the environment's
        own goals, if it has goals, else its start states."""
        count = episodes or self.config.evaluate_episodes
        envs, part = self.evaluators(count, 0 if targets is None else targets.shape[0])
        keys = _keys(runs.key_evaluation)
        light = without(runs, "replay", "scene")
        starts = envs.reset(keys ^ 1)[:, :count] if targets is None and not envs.spec.goal else None
        obs = jnp.asarray(envs.reset(keys))
        asks = targets is None and bool(envs.spec.goal)
        aims = targets if targets is not None else _own_goals(envs, obs, count) if asks else jnp.asarray(starts)
        own = OwnSuccess((obs.shape[0], obs.shape[1] - count))
        pursued, path = part["plan"](light, aims), []
        draw = partial(_draw_noise, keys, shape=(obs.shape[1], envs.spec.action_dim)) if noise else lambda clock: None
        stats, action = part["first"](light, obs, pursued, draw(-1))
        for clock in range(envs.spec.horizon):
            out = envs.step(_finite_actions(action), keys, clock)
            if asks:
                own.follow(cast(GoalEnvs, envs).succeeded()[:, count:], out.last[:, count:])
            stats, action, place = part["observe_and_act"](light, stats, action, out, pursued, draw(clock))
            path.append(np.asarray(place))
        concluded = part["conclude"](light, stats, np.stack(path, axis=1), pursued, aims)
        return {**concluded, **(own.rates() if asks else {})}

    def record_episodes(self, runs: RunState, z: Array, noise: bool = False) -> np.ndarray:
        envs, keys = self.config.build_host_envs(self.config.runs, z.shape[0]), _keys(runs.key_evaluation) ^ 2
        light = without(runs, "replay", "scene")
        path = [envs.reset(keys)]
        obs, ended = path[0], np.zeros(path[0].shape[:2], bool)
        for clock in range(envs.spec.horizon):
            draws = _draw_noise(keys, clock, (z.shape[0], envs.spec.action_dim)) if noise else None
            out = envs.step(_finite_actions(self.act_for_all(light, obs, z, draws)), keys, clock)
            path.append(np.where(ended[..., None], path[-1], out.next_obs))
            obs, ended = out.obs, ended | out.last
        envs.close()
        return np.stack(path, axis=1)

    def save_envs(self) -> dict[str, Any]:
        return self.envs.save()

    def overflows(self, runs: RunState) -> int:
        return 0

    def enter(self, runs: RunState, saved: dict[str, Any]) -> tuple[RunState, bool]:
        if self.envs.load(saved):
            return runs, True
        keys = _keys(jax.vmap(jax.random.fold_in, (0, 0))(runs.key, runs.replay.head.sum(axis=1)))
        return self.restart_episodes(runs, jnp.asarray(self.envs.reset(keys))), False


def compile_config(config: Config) -> Program:
    """Returns the program of a configuration: native, or with environments on the host."""
    if (
        jnp.result_type(float) == np.float64
    ):  # as the user has set it; a state in double precision could not be read back
        valid = "jax.config.update('jax_enable_x64', False), without JAX_ENABLE_X64"
        raise UsageError(f"JAX computes in double precision, and this package in single; valid: {valid}")
    if not config.native:
        return HostProgram(config)
    examiner = config.examiner
    return NativeProgram(config, None if examiner == config else compile_config(examiner))
