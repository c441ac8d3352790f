"""The loop with environments on the host: the same bits as the native loop, and the same after a resume."""

import dataclasses
import functools
from functools import partial
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tiny import TINY
from vgcrl.envs import Vectorised
from vgcrl.objective.types import Step
from vgcrl.training import host_program, program
from vgcrl.training.config import Config
from vgcrl.training.native_program import NativeProgram
from vgcrl.training.options import Options
from vgcrl.training.resolve import resolve


class PointmassOnHost:
    """The native point mass behind the host's contract, with the keys the native loop would use.

    It forgets where it was when a run is resumed, and keeps the actions that it is given.
    """

    actions: ClassVar[list] = []

    def __init__(self, config, runs, count):
        self.env, self.count = Vectorised(config.build_env(), count), count
        self.spec = self.env.spec

        def key(word, clock):
            words = jax.random.wrap_key_data(word)
            return jax.random.split(jax.random.fold_in(words, clock), 4)[1]

        def first(seed):
            return self.env.reset(jax.random.split(jax.random.key(seed), 6)[4])

        self.start = jax.jit(jax.vmap(first))
        self.forward = jax.jit(
            lambda s, a, words, clock: jax.vmap(lambda s, a, w: self.env.step(s, a, key(w, clock)))(s, a, words)
        )
        self.seeds = jnp.arange(config.seed, config.seed + runs)

    def reset(self, keys):
        self.state, obs = self.start(self.seeds)
        return np.asarray(obs)

    def step(self, action, keys, clock):
        self.actions.append(action)
        self.state, out = self.forward(self.state, jnp.asarray(action), keys, clock)
        return Step(*map(np.asarray, out))

    def save(self):
        return {"position": np.asarray(self.state.sim.position)}

    def load(self, saved):
        return False

    def close(self):
        pass


@functools.cache
def program_with(ratio):
    return host_program.HostProgram(resolve(Options(**{**TINY, "updates_per_step": ratio})))


@pytest.fixture
def ratio():
    return 0.5


@pytest.fixture
def host(monkeypatch, ratio):
    """A program whose parts are compiled once for all tests: several updates an iteration, or several steps."""
    monkeypatch.setattr(Config, "build_host_envs", lambda *args: PointmassOnHost(*args))
    return program_with(ratio)


def leaves(tree):
    plain = jax.tree.map(
        lambda x: jax.random.key_data(x) if jax.dtypes.issubdtype(x.dtype, jax.dtypes.prng_key) else x, tree
    )
    return [np.asarray(x) for x in jax.tree.leaves(plain)]


def test_a_program_does_not_grow_with_the_steps_between_updates():
    def size(ratio):
        p = program.build_components(resolve(Options(**{**TINY, "envs": 1, "updates_per_step": ratio})))
        run = jax.eval_shape(
            partial(program.init, p, obs=None), *jax.tree.map(lambda x: x[0], program.run_axis(p.config))
        )
        return len(str(jax.make_jaxpr(partial(program.advance, p))(run, 0, 1)).splitlines())

    assert size(0.25) == size(0.002)


@pytest.mark.parametrize("ratio", [0.5, pytest.param(0.125, marks=pytest.mark.slow)])
def test_equals_the_native_loop(host, ratio):
    """Simulating while the device learns changes nothing of what is computed, up to rounding: programs differ."""
    native = NativeProgram(host.config)
    runs = native.advance(native.init(), 0, 40)
    others = host.advance(host.init(), 0, 25)
    others = host.advance(others, 25, 15)
    close = partial(np.testing.assert_allclose, rtol=1e-3, atol=1e-4)
    close(host.envs.save()["position"], runs.scene.env.sim.position)
    skip = {"scene": (), "info": ()}
    for ours, theirs in zip(leaves(runs._replace(**skip)), leaves(others._replace(**skip)), strict=True):
        close(ours, theirs)
    close(runs.scene.obs, others.scene.obs)


def test_the_parts_compile_once():
    config = resolve(Options(env="HalfCheetah", **{**TINY, "horizon": 20, "replay": 4000}))
    host = host_program.HostProgram(config)
    runs = host.init()
    for i in range(0, 60, 20):
        runs = host.advance(runs, i, 20)
    assert [f._cache_size() for f in (host.decide, host.learn, host.observe_and_act)] == [1, 1, 1]
    for _ in range(2):
        host.evaluate(runs, None)
    assert {f._cache_size() for f in host.evaluators(TINY["evaluate_episodes"], 0)[1].values()} == {1}


def test_runs_together_equal_runs_alone():
    """Up to rounding: products of one run and of two are not summed in the same order."""
    both = resolve(Options(env="HalfCheetah", **{**TINY, "horizon": 20, "replay": 4000}))
    alone = dataclasses.replace(both, seeds=1, seed=1)
    states = []
    for config in (both, alone):
        host = host_program.HostProgram(config)
        states.append(host.advance(host.init(), 0, 10))
    np.testing.assert_allclose(states[0].scene.obs[1], states[1].scene.obs[0], rtol=1e-3, atol=1e-3)


def test_goals_are_drawn_anew_at_every_resume(host):
    runs, drawn = host.init(), []
    for first in (0, 10):
        runs, exact = host.enter(host.advance(runs, first, 10), {})
        assert not exact
        drawn.append(np.asarray(runs.scene.z))
    assert (drawn[0] != drawn[1]).any()


def test_a_simulator_never_sees_what_is_no_number(host):
    """In training, in an evaluation and in a path that is watched."""
    seen = PointmassOnHost.actions
    runs = host.init()
    lost = jax.tree.map(lambda x: x * jnp.nan, runs.learner.agent.actor)
    runs = runs._replace(learner=runs.learner._replace(agent=runs.learner.agent._replace(actor=lost)))
    z = jnp.zeros((2, *runs.scene.z.shape[2:]), runs.scene.z.dtype)
    for use in (
        lambda: host.evaluate(runs, None),
        lambda: host.record_episodes(runs, z),
        lambda: host.advance(runs, 10_000, 1),
    ):
        seen.clear()
        use()
        assert seen
        assert all(np.isfinite(action).all() for action in seen)
