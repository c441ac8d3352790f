"""From Python: train, load, ask for a state, and score policies trained elsewhere."""

import json

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import vgcrl
from tiny import TINY
from untrained import untrained
from vgcrl.envs.pointmass import ARENA
from vgcrl.objective.methods import METHODS
from vgcrl.training import trainer
from vgcrl.training.resolve import resolve
from vgcrl.use.evaluate import check_episodes

pytestmark = pytest.mark.usefixtures("unrendered")


def test_train_returns_the_run(tmp_path):
    run = vgcrl.train("agcrl", env="windy-pointmass", out=tmp_path / "run", **TINY)
    assert run.metrics[-1] == run.last
    assert run.last["step"] == 640
    assert not run.interrupted


def test_policy_acts_for_a_state_and_for_a_goal(windy):
    policy = vgcrl.load(windy)
    obs, target = np.zeros(4), np.array([1.0, -1.0, 0, 0])
    action = policy.act(obs, goal_state=target)
    assert action.shape == (2,)
    assert np.all(np.abs(action) <= 1)
    z = policy.embed(target)
    np.testing.assert_allclose(z, target[:2], rtol=1e-6)
    np.testing.assert_allclose(policy.act(obs, z=z), action, atol=1e-5)
    other = vgcrl.load(windy, seed=1)
    assert not np.allclose(other.act(obs, goal_state=target), action)


def test_a_policy_is_that_of_its_seed_and_setting(tmp_path):
    """Of six runs, three settings of two seeds each, the weights of the run itself act."""
    folder = untrained(tmp_path / "run", "vgcrl", spectral_norm=(1.0, 2.0, 3.0))
    program, runs, _ = trainer.restore(folder, print)
    obs, z = jnp.array([0.5, -0.2, 0.1, 0.3]), [0.3, -0.4]
    each = [jax.tree.map(lambda x, i=i: x[i], runs) for i in range(6)]
    expected = [program.act(run, obs, program.goals.read(z)) for run in each]
    assert len({float(action[0]) for action in expected}) == 6
    for index in range(6):
        policy = vgcrl.load(folder, seed=index % 2, setting=index // 2)
        assert np.allclose(policy.act(obs, z=z), expected[index], atol=1e-6)
        assert policy.seed == index % 2
    with pytest.raises(vgcrl.UsageError, match=r"3 settings, and none was chosen; valid: setting 0 \(spectral "):
        vgcrl.load(folder)
    for wrong in (3, -1, "0", 0.5, True):
        with pytest.raises(vgcrl.UsageError, match=f"setting {wrong!r} is not in this run; valid: 0 .*, 2 "):
            vgcrl.load(folder, setting=wrong)


def test_policy_refuses_what_it_cannot_mean(windy):
    policy = vgcrl.load(windy)
    with pytest.raises(ValueError, match="name one goal"):
        policy.act(np.zeros(4))
    with pytest.raises(ValueError, match=r"goal_state has shape \(2,\)"):
        policy.act(np.zeros(4), goal_state=np.zeros(2))
    with pytest.raises(ValueError, match="goal_state has a number that is not finite"):
        policy.act(np.zeros(4), goal_state=np.full(4, np.nan))
    for wrong in (np.zeros(4, complex), ["0"] * 4, np.zeros(4, "M8[D]"), {0, 1}, [0, None, 0, 0]):
        with pytest.raises(ValueError, match=r"obs has dtype .*; valid: numbers"):
            policy.act(wrong, z=[0.0, 0.0])
    with pytest.raises(ValueError, match="obs is no array"):
        policy.act([[0], [0, 0]], z=[0.0, 0.0])
    assert np.isfinite(policy.act(jnp.zeros(4, jnp.bfloat16), z=[0.0, 0.0])).all()
    with pytest.raises(ValueError, match="finite"):
        policy.act(np.zeros(4), z=[np.nan, 0.0])
    with pytest.raises(ValueError, match=r"z is 0\.5; valid: a goal of 2 numbers"):
        policy.act(np.zeros((3, 4)), z=0.5)
    for wrong in ("no", None, 0):
        with pytest.raises(ValueError, match=f"deterministic {wrong!r} is not valid; valid: True or False"):
            policy.act(np.zeros(4), z=[0.0, 0.0], deterministic=wrong)
    assert policy.act(np.zeros(4), z=[0.0, 0.0], deterministic=np.True_).shape == (2,)
    with pytest.raises(ValueError, match="this is no goal environment"):
        policy.predict(np.zeros(4))
    assert vgcrl.load(windy, seed=np.int64(policy.seed)).seed == policy.seed
    for wrong in (9, "0", 0.5, True):
        with pytest.raises(vgcrl.UsageError, match=f"seed {wrong!r} is not in this run"):
            vgcrl.load(windy, seed=wrong)
    for wrong in ({"episodes": 0}, {"episodes": -1}, {"episodes": 2.5}, {"episodes": True}, {"noise": "no"}):
        (name,) = wrong
        with pytest.raises(vgcrl.UsageError, match=f"--{name} .* is not valid; valid: "):
            vgcrl.evaluate(windy, **wrong)
    with pytest.raises(vgcrl.UsageError, match="a whole number from 1 to 1048576"):
        check_episodes(2**20 + 1)
    with pytest.raises(vgcrl.UsageError, match="method 5 cannot be registered"):
        vgcrl.register_method(5, METHODS["gcrl"])
    with pytest.raises(vgcrl.UsageError, match="unknown option 'stepz'"):
        vgcrl.train(stepz=3)
    with pytest.raises(vgcrl.UsageError, match=r"--features '0\.5' is not understood; valid: "):
        vgcrl.train(features=0.5)
    for wrong in ({"seeds": 2.5}, {"hidden": [16.5]}, {"terminate": "no"}):
        (name,) = wrong
        with pytest.raises(vgcrl.UsageError, match=f"--{name} .* is not valid; valid: "):
            vgcrl.train(**wrong)


def test_masked_numbers_are_refused_wherever_they_are(windy):
    policy, state = vgcrl.load(windy), np.zeros(4)
    masked = np.ma.masked_array(np.zeros(4), [0, 1, 0, 0])
    for act in (
        lambda: policy.act(masked, z=[0.0, 0.0]),
        lambda: policy.act([state, masked], z=[0.0, 0.0]),
        lambda: policy.act(state, goal_state=masked),
        lambda: policy.act(state, z=masked[:2]),
        lambda: policy.act(np.zeros((2, 4)), z=[np.zeros(2), masked[:2]]),
        lambda: policy.embed(masked),
        lambda: policy.predict({"observation": state, "achieved_goal": state, "desired_goal": masked}),
        lambda: vgcrl.lgr(controller, lambda s: s[:2], "pointmass", masked),
        lambda: vgcrl.film(windy, goals=[masked[:2]]),
    ):
        with pytest.raises(vgcrl.UsageError, match="masked entries are no numbers; valid: numbers without a mask"):
            act()
    assert policy.act(np.ma.masked_array(state, False), z=[0.0, 0.0]).shape == (2,), "of which none is masked"


def controller(obs, z):
    """A hand-made policy that goes to a place and stays: z is the place."""
    n = len(z)
    return np.clip(4 * (z - obs[:n]) - 2 * obs[n:], -1, 1)


def test_lgr_knows_good_from_bad():
    """A proportional controller reaches any place; standing still misses by the variance of start and target."""
    targets = np.array([[1.0, 1.0, 0, 0], [-0.5, 0.2, 0, 0], [0.0, -1.2, 0, 0]])
    good = vgcrl.lgr(controller, lambda s: s[:2], "pointmass", targets)
    still = vgcrl.lgr(lambda obs, z: np.zeros(2), lambda s: s[:2], "pointmass", targets)
    assert good < 1e-3 < 0.3 < still
    assert vgcrl.lgr(controller, lambda s: s[:2], vgcrl.make("pointmass"), targets) == good
    assert vgcrl.lgr(controller, lambda s: s[:2], "pointmass", targets, dims=(2, 3)) < good
    with pytest.raises(ValueError, match=r"targets have shape \(1,\), observations \(4,\)"):
        vgcrl.lgr(controller, lambda s: s[:1], "pointmass", [[1.0]])
    with pytest.raises(ValueError, match="not finite"):
        vgcrl.lgr(controller, lambda s: s[:2], "pointmass", [[1.0, 0.0, 0.0, np.nan]])


def test_lgr_takes_actions_in_the_units_of_the_environment():
    """With forces from 0 to 4 in place of −1 to 1 the same controller, in those units, scores the same."""
    env, targets = vgcrl.make("pointmass"), np.array([[1.0, 1.0, 0, 0], [-0.5, 0.2, 0, 0]])
    other = env._replace(spec=env.spec._replace(action_low=(0.0, 0.0), action_high=(4.0, 4.0)))
    usual = vgcrl.lgr(controller, lambda s: s[:2], env, targets)
    scored = vgcrl.lgr(lambda obs, z: 2 + 2 * controller(obs, z), lambda s: s[:2], other, targets)
    assert scored == pytest.approx(usual, rel=1e-3)
    np.testing.assert_allclose(other.spec.unscale(other.spec.scale(np.array([-0.3, 0.9]))), [-0.3, 0.9])


def test_lgr_of_a_gymnasium_environment():
    """The same point mass behind Gymnasium's interface gives the same number."""
    native = vgcrl.make("pointmass")

    class Wrapped(gymnasium.Env):
        observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (4,))
        action_space = gymnasium.spaces.Box(-1, 1, (2,))

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            key, self.key = jax.random.split(jax.random.key(seed))
            self.sim, obs = native.reset(key)
            return np.asarray(obs), {}

        def step(self, action):
            self.sim, obs, _ = native.step(self.sim, np.asarray(action, np.float32), self.key)
            return np.asarray(obs), 0.0, False, False, {}

    targets = [[ARENA / 2, 0.0, 0.0, 0.0]]
    theirs = vgcrl.lgr(controller, lambda s: s[:2], Wrapped(), targets, max_steps=native.spec.horizon)
    assert theirs == pytest.approx(vgcrl.lgr(controller, lambda s: s[:2], "pointmass", targets), rel=1e-3)
    with pytest.raises(ValueError, match="no time limit"):
        vgcrl.lgr(controller, lambda s: s[:2], Wrapped(), targets)
    limited = gymnasium.wrappers.TimeLimit(Wrapped(), native.spec.horizon)
    assert vgcrl.lgr(controller, lambda s: s[:2], limited, targets) == theirs
    with pytest.raises(ValueError, match="valid: finite numbers"):
        vgcrl.lgr(lambda obs, z: [np.nan, 0.0], lambda s: s[:2], limited, targets)


def test_numbers_of_numpy_and_whole_floats_are_numbers(monkeypatch):
    saved = lambda given, *_, **__: json.loads(resolve(given).to_json())  # noqa: E731
    monkeypatch.setattr(trainer, "start", saved)
    given = TINY | {"steps": 1.6e2, "envs": np.int64(4), "spectral_norm": np.array([0.0, 2.0]), "seeds": 1}
    config = vgcrl.train("diayn", features=[0, 1], learning_rate=np.array(1e-3), **given)
    assert (config["steps"], config["envs"], config["features"]) == (160, 4, "0,1")
    assert config["spectral_norm"] == [0.0, 2.0]
    assert {name: type(config[name]) for name in ("steps", "envs")} == {"steps": int, "envs": int}


class Still(gymnasium.Env):
    """Stays where it is told to be, which may be no place."""

    observation_space = gymnasium.spaces.Box(-9, 9, (4,))
    action_space = gymnasium.spaces.Box(-1, 1, (2,))

    def __init__(self, obs):
        self.obs = obs

    def reset(self, *, seed=None, options=None):
        return self.obs, {}

    def step(self, action):
        return self.obs, 0.0, False, False, {}


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"policy": 5}, "policy is a int; valid: a function"),
        ({"embed": None}, "embed is a NoneType; valid: a function"),
        ({"env": Still}, r"env is the class Still; valid: an environment, such as Still\(\)"),
        ({"env": 5}, "env is 5; valid: a name, an Env, or a Gymnasium environment"),
        ({"env": Still([np.nan] * 4)}, r"a number that is not finite; valid: finite numbers of shape \(4,\)"),
        ({"env": Still(None)}, "the environment gave"),
        ({"env": Still(np.zeros(1))}, r"numbers of shape \(1,\)"),
        ({"policy": lambda obs, z: np.zeros(7)}, r"valid: finite numbers of shape \(2,\)"),
        ({"policy": lambda obs, z: (np.zeros(2), None)}, "the policy's action is no array: .*; valid: numbers"),
        ({"policy": lambda obs, z: "left"}, "the policy's action has dtype <U4; valid: numbers"),
        ({"targets": "there"}, "targets has dtype <U5; valid: numbers"),
        ({"targets": [[1.0, 2.0], [3.0]]}, "targets is no array: .*; valid: numbers"),
        ({"targets": np.zeros((1, 4), complex)}, "targets has dtype complex128; valid: numbers"),
    ],
)
def test_lgr_tells_what_does_not_fit(changed, said):
    good = {"policy": lambda obs, z: np.zeros(2), "embed": lambda s: s, "env": Still(np.ones(4))}
    good |= {"targets": np.zeros((1, 4))}
    assert vgcrl.lgr(**good, max_steps=2) == 4.0
    with pytest.raises(vgcrl.UsageError, match=said):
        vgcrl.lgr(**good | changed, max_steps=2)


def test_lgr_refuses_what_never_ends():
    with pytest.raises(ValueError, match="empty"):
        vgcrl.lgr(controller, lambda s: s[:2], "pointmass", np.zeros((0, 4)))


def test_lgr_refuses_what_means_nothing():
    targets = [[1.0, 0, 0, 0]]

    def score(policy=controller, **options):
        return vgcrl.lgr(policy, lambda s: s[:2], "pointmass", targets, **options)

    for wrong in ((), [0.5], 2, ["x"]):
        with pytest.raises(vgcrl.UsageError, match=r"dims .* are not valid; valid: whole numbers, at least one"):
            score(dims=wrong)
    with pytest.raises(ValueError, match=r"dims \[5\] are not all of an observation's 4"):
        score(dims=[5])
    with pytest.raises(ValueError, match="max_steps 0 is not valid; valid: a whole number of at least 1"):
        score(max_steps=0)
    with pytest.raises(ValueError, match="max_steps '3' is not valid"):
        score(max_steps="3")
    for wrong in (2**40, 2**31, -1):
        with pytest.raises(vgcrl.UsageError, match=f"--seed {wrong} is out of range; valid: an integer from 0 to"):
            score(seed=wrong)
    assert score(seed=np.int64(3), max_steps=1) == score(seed=3, max_steps=1)
    for wrong in (0.0, [0.0], [np.nan, 0.0]):
        with pytest.raises(ValueError, match="valid: 2 finite numbers"):
            score(lambda obs, z, wrong=wrong: wrong)
    assert score(max_steps=1) > score() + 0.1


def test_states_too_large_are_refused_without_a_warning(windy, recwarn):
    with pytest.raises(ValueError, match="goal_state has a number that is not finite"):
        vgcrl.load(windy).act(np.zeros(4), goal_state=[1e39, 0, 0, 0])
    assert not [w for w in recwarn if issubclass(w.category, RuntimeWarning)]


@pytest.mark.parametrize("steps", [2e5, np.int64(200_000), 200_000])
def test_steps_of_numpy_or_as_a_whole_float_are_steps(steps, tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr("vgcrl.training.trainer.resume", lambda folder, steps, **_: asked.append(steps))
    vgcrl.resume(untrained(tmp_path / "run", "diayn"), steps=steps)
    assert asked == [200_000]
    assert type(asked[0]) is int
