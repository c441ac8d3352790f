"""Where bodies went: cells, arrivals, and places in front of the observation, on every engine."""

import dataclasses
import json
import shlex

import jax.numpy as jnp
import numpy as np
import pytest

from vgcrl.envs import bodies, find
from vgcrl.errors import UsageError
from vgcrl.measure import places, target_states
from vgcrl.objective.agents.inputs import seeing
from vgcrl.objective.networks import INPUTS
from vgcrl.training.config import Config
from vgcrl.training.options import Options
from vgcrl.training.resolve import resolve
from vgcrl.use.policies import train_command


def test_coverage_counts_cells_entered_by_anyone():
    path = np.array([[[0.1, 0.1], [-0.1, 0.1]], [[0.9, 0.9], [-1.1, 0.5]], [[1.1, 0.9], [-0.1, 0.2]]])
    assert places.coverage(path) == 4  # (0, 0), (1, 0), (−1, 0), (−2, 0)
    assert places.coverage(path[..., :1]) == 4


def test_arrivals():
    path = np.zeros((4, 3, 2))
    path[:, 0] = [[5, 0], [1, 0], [0.4, 0], [0.2, 0]]  # arrives and stays
    path[:, 1] = [[5, 0], [0, 0.3], [0, 3], [0, 6]]  # passes by
    path[:, 2] = 7
    found = places.arrivals(path, np.zeros((3, 2)))
    assert found["success"] == pytest.approx(2 / 3)
    assert found["success_end"] == pytest.approx(1 / 3)
    assert found["time_near"] == pytest.approx(3 / 12)
    assert (found["success_1"], found["success_3"]) == (pytest.approx(2 / 3), pytest.approx(2 / 3))
    assert (found["time_near_1"], found["time_near_3"]) == (pytest.approx(4 / 12), pytest.approx(5 / 12))
    assert found["distance_left"] == pytest.approx(6)


@pytest.mark.parametrize("env", bodies.TASKS)
@pytest.mark.parametrize("engine", ["mujoco", "gymnasium"])
def test_places_come_first_and_the_rest_is_as_without(env, engine):
    seen = {}
    for positions in (False, True):
        config = resolve(Options("diayn", env, engine=engine, positions=positions, horizon=20))
        envs = config.build_host_envs(1, 2)
        envs.reset(np.zeros((1, 2), np.uint32))
        action = np.full((1, 2, envs.spec.action_dim), 0.3, np.float32)
        for clock in range(5):
            obs = envs.step(action, np.zeros((1, 2), np.uint32), clock).obs
        seen[positions] = envs.spec, obs
        envs.close()
    (plain, without), (spec, shown) = seen[False], seen[True]
    count = bodies.TASKS[env].places
    assert spec.place == tuple(range(count))
    assert plain.place == ()
    np.testing.assert_array_equal(shown[..., count:], without)
    assert spec.velocity == tuple(i + count for i in plain.velocity)
    assert spec.position == tuple(i + count for i in plain.position)
    assert np.abs(shown[..., :count]).max() > 0
    assert {(spec.low[i], spec.high[i]) for i in spec.place} == {(-bodies.REACH, bodies.REACH)}


def test_targets_get_places_from_their_range():
    spec = resolve(Options("diayn", "Ant", positions=True)).specification
    states = np.asarray(target_states.for_spec("Ant", spec, 98))
    plain = np.asarray(target_states.default("Ant", spec.obs_dim - 2, 98))
    np.testing.assert_array_equal(states[:, 2:], plain)
    assert np.abs(states[:, :2]).max() <= bodies.REACH
    assert np.std(states[:, :2]) > bodies.REACH / 3


def test_methods_that_move_have_places_and_short_episodes_by_default():
    config = resolve(Options("metra", "HalfCheetah"))
    assert (config.positions, config.horizon, config.posterior_features) == (True, 200, "standard")
    assert resolve(Options("metra", "HalfCheetah", positions=False)).positions is False
    assert resolve(Options("metra", "pointmass")).positions is None
    assert "positions" not in find("pointmass").options


def test_goals_that_are_places_have_defaults_of_their_own():
    asked = resolve(Options("gcrl", "Ant", positions=True))
    assert (asked.reward, asked.posterior, asked.relative_goals, asked.features) == (
        "progress",
        "state-huber",
        True,
        "0,1",
    )
    assert resolve(Options("gcrl", "Ant", positions=True, reward="level", relabel="her")).relabel_fraction == (0.5,)
    assert (resolve(Options("gcrl", "Ant")).reward, resolve(Options("agcrl", "Ant", positions=True)).reward) == (
        "level",
    ) * 2


def test_progress_is_refused_where_q_sees_more_than_a_state():
    with pytest.raises(
        UsageError, match="--reward progress needs a q that sees one state, that of metra sees more; valid: level"
    ):
        resolve(Options("metra", "pointmass", reward="progress"))


def test_an_agent_that_sees_the_way_left_does_not_see_where_it_is():
    see = seeing(lambda z: z, INPUTS["raw"], relative=(0, 1), unseen=(0, 1))
    obs, z, moved = jnp.array([1.0, 2.0, 7.0]), jnp.array([4.0, 6.0]), jnp.array([5.0, -3.0])
    np.testing.assert_array_equal(see(obs, z), [0, 0, 7, 3, 4])
    np.testing.assert_array_equal(see(obs.at[:2].add(moved), z + moved), see(obs, z))


def test_the_command_of_a_run_names_every_argument_and_plugin():
    config = dataclasses.replace(
        resolve(Options("diayn", "Pendulum-v1", env_arg=("g=9.0", "render_mode=human"), steps=1000)), plugins=("mine",)
    )
    words = shlex.split(train_command(config))
    assert [words[i + 1] for i, word in enumerate(words) if word == "--env-arg"] == ["g=9.0", "render_mode=human"]
    assert words[words.index("--import") + 1] == "mine"


def test_the_command_of_a_run_asks_for_the_same_run():
    """Also where defaults depend on an option that is not the default."""
    config = resolve(Options("gcrl", "Ant", positions=True, inputs="raw", relabel="her", steps=1000))
    command = train_command(config)
    assert "--positions yes" in command
    assert "--inputs raw" in command
    assert "--reward" not in command
    older = {k: v for k, v in json.loads(config.to_json()).items() if k != "encoder"}  # from before that option
    assert train_command(Config.from_json(json.dumps(older))) == command
