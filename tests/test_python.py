"""Use from Python: batches, dicts of goal environments, histories, callbacks, what is said of an object."""

import builtins
import inspect

import gymnasium
import jax
import numpy as np
import pytest

import vgcrl
from test_foreign import one_line
from tiny import TINY
from untrained import random_policies
from vgcrl.objective.methods import METHODS
from vgcrl.training import history, run_folder
from vgcrl.training.run_folder import Run, read_config
from vgcrl.use.policy import policy_of

pytestmark = pytest.mark.usefixtures("unrendered")

REACH = "foreign_envs:Reach-v0"


@pytest.fixture(scope="module")
def run(trained):
    config = read_config(trained)
    lines = run_folder.read_lines(trained / "metrics.jsonl")
    return Run(trained, config, lines[-1], interrupted=False)


@pytest.fixture(scope="module")
def policy(trained):
    return vgcrl.load(trained, seed=1)


def test_every_name_is_there_with_its_own_docstring():
    for name in vgcrl.__all__:
        assert inspect.getdoc(getattr(vgcrl, name)), name
    parameters = inspect.signature(vgcrl.train).parameters
    assert {"method", "env", "env_kwargs", "steps", "seeds", "out", "quiet", "callback"} <= parameters.keys()


def test_batches_are_as_one_by_one(policy):
    states, goals = np.random.default_rng(0).uniform(-1, 1, (3, 4)), [2, 0, 5]
    each = np.stack([policy.act(s, z=z) for s, z in zip(states, goals, strict=True)])
    np.testing.assert_allclose(policy.act(states, z=goals), each, atol=1e-6)
    np.testing.assert_allclose(policy.act(states, z=2)[1], policy.act(states[1], z=2), atol=1e-6)
    targets = states[::-1]
    each = np.stack([policy.act(s, goal_state=t) for s, t in zip(states, targets, strict=True)])
    np.testing.assert_allclose(policy.act(states, goal_state=targets), each, atol=1e-6)
    np.testing.assert_allclose(policy.act(states, goal_state=targets[0])[0], each[0], atol=1e-6)
    np.testing.assert_array_equal(policy.embed(states), [policy.embed(s) for s in states])


@pytest.mark.parametrize(
    ("call", "word"),
    [
        (lambda p: p.act(np.zeros((3, 4)), z=[1, 2]), "2 goals for 3 observations"),
        (lambda p: p.act(np.zeros((3, 4)), goal_state=np.zeros((2, 4))), "2 goal states for 3 observations"),
        (lambda p: p.act(np.zeros(4), goal_state=np.zeros((2, 4))), "2 goal states for one observation"),
        (lambda p: p.act(np.zeros((2, 3, 4)), z=0), "shape (2, 3, 4)"),
        (lambda p: p.act(np.zeros((0, 4)), z=0), "shape (0, 4)"),
        (lambda p: p.act({"observation": np.zeros(4)}, z=0), "this is no goal environment"),
    ],
)
def test_what_does_not_fit_is_told(policy, call, word):
    with pytest.raises(ValueError, match=word.replace("(", r"\(").replace(")", r"\)")):
        call(policy)


def test_short_representations(run, policy):
    assert repr(policy) == "Policy(diayn on pointmass, seed 1)"
    assert repr(run) == f"Run({str(run.dir)!r}: diayn on pointmass, 640 steps, 2 runs)"


def test_history(run, monkeypatch):
    table = run.history()
    assert table["step"].tolist() == [s for s in range(0, 641, 160) for _ in range(2)]
    assert table["seed"].tolist() == [0, 1] * 5
    assert table["F"].tolist()[-1] == run.last["seeds"][1]["F"]
    assert "train_critic_loss" in table
    real = builtins.__import__

    def absent(name, *rest):
        if name == "pandas":
            raise ImportError
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", absent)
    assert run.history()[-1]["F"] == run.last["seeds"][1]["F"]


@pytest.mark.parametrize("wrong", [None, 5, ["a"], np.zeros(2)], ids=str)
def test_what_is_no_path_is_told_by_name(run, wrong):
    told = f"{wrong!r:.60} is not valid; valid: a path"
    for use in (vgcrl.load, vgcrl.evaluate, vgcrl.resume, vgcrl.explore, vgcrl.film):
        one_line(lambda use=use: use(wrong), f"run {told}")
    one_line(lambda: vgcrl.report(wrong), f"folder {told}")
    if wrong is not None:
        for use in (vgcrl.report, vgcrl.explore, vgcrl.film):
            one_line(lambda use=use: use(run.dir, out=wrong), f"out {told}")


def test_targets_may_be_an_array(run, tmp_path):
    states = np.random.default_rng(0).uniform(-1, 1, (3, 4)).astype(np.float32)
    np.save(tmp_path / "states.npy", states)
    (given, file) = (vgcrl.evaluate(run.dir, targets=x) for x in (states, tmp_path / "states.npy"))
    assert given["mean"] == file["mean"]
    assert (given["targets"], file["targets"]) == ("3 states given", str(tmp_path / "states.npy"))
    one_line(lambda: vgcrl.evaluate(run.dir, targets=np.zeros((2, 3))), "targets holds (2, 3) values", "rows of 4")
    one_line(lambda: vgcrl.evaluate(run.dir, targets=[]), "targets holds")
    masked = np.ma.masked_greater(states, states.max() - 0.1)
    one_line(lambda: vgcrl.evaluate(run.dir, targets=masked), "targets: masked entries are no numbers")
    one_line(lambda: vgcrl.evaluate(run.dir, targets=[[3e38, 0, 0, 0]]), "targets holds a number that is too large")


def test_no_method_is_none_of_them(tmp_path):
    for use in (vgcrl.train, vgcrl.compile):
        one_line(lambda use=use: use(None), "method None is not valid; valid: the name of a method")


def test_plot(run):
    lines = run.plot("lgr_z").axes[0].lines
    assert [line.get_label() for line in lines] == ["seed 0", "seed 1"]
    assert list(lines[1].get_ydata()) == [line["seeds"][1]["lgr_z"] for line in run.metrics]
    one_line(lambda: run.plot("speed"), "metric 'speed' is not in this run", "lgr_z")


def test_a_plot_tells_settings_apart_and_shows_what_a_lost_seed_has():
    rows = [{"step": s, "seed": 0, "spectral_norm": c, "F": x} for s in (0, 9) for c, x in ((0.0, 1.0), (2.0, None))]
    lines = history.figure(rows, "F").axes[0].lines
    assert [line.get_label() for line in lines] == ["seed 0, spectral norm 0", "seed 0, spectral norm 2"]
    assert list(lines[0].get_ydata()) == [1.0, 1.0]


def test_callbacks_and_what_a_goal_environment_gives(tmp_path):
    """A callback stops training where it says, saved; `resume` goes on; a policy takes dicts as they come."""
    seen = []

    def watch(record):
        seen.append(record["step"])
        return record["step"] == 160

    run = vgcrl.train("gcrl", env=REACH, out=tmp_path / "run", callback=watch, **TINY)
    assert (seen, run.last["step"], run.interrupted) == ([0, 160], 160, True)
    run = vgcrl.resume(run.dir, callback=vgcrl.stop_when("env_success", at_least=2.0))
    assert (run.last["step"], run.interrupted) == (640, False)
    found = vgcrl.evaluate(run.dir, episodes=3)
    assert found["steps"] == 640
    assert 0 <= found["mean"]["env_success"] <= 1
    policy, env = vgcrl.load(run.dir), gymnasium.make(REACH)
    obs, _ = env.reset(seed=0)
    action, state = policy.predict(obs)
    assert state is None
    np.testing.assert_allclose(action, policy.act(obs, z=obs["desired_goal"]), atol=1e-6)
    many = {name: np.stack([x, x]) for name, x in obs.items()}
    np.testing.assert_allclose(policy.predict(many)[0], np.stack([action, action]), atol=1e-6)
    drawn, again = (policy.predict(obs, deterministic=False, rng=np.random.default_rng(0))[0] for _ in range(2))
    np.testing.assert_array_equal(drawn, again)
    assert not np.allclose(drawn, action)


def test_stopping_on_a_metric():
    record = {"step": 160, "mean": {"F": 1.0, "lgr_v": None}}
    assert vgcrl.stop_when("F", at_least=1.0)(record) is True
    assert vgcrl.stop_when("F", at_least=1.1)(record) is False
    assert vgcrl.stop_when("F", at_most=1.0)(record) is True
    assert vgcrl.stop_when("lgr_v", at_most=1.0)(record) is False
    one_line(lambda: vgcrl.stop_when("speed", at_least=1.0)(record), "'speed' is unknown", "F")
    one_line(lambda: vgcrl.stop_when("F"), "one bound")


def test_an_environment_takes_its_own_options_only():
    assert vgcrl.make("pointmass", dims=3).spec.obs_dim == 6
    one_line(lambda: vgcrl.make("pointmass", hidden=(3,)), "make takes no hidden; valid for pointmass: ", "dims")
    one_line(lambda: vgcrl.make("pointmass", method="gcrl"), "make takes no method")


@pytest.mark.parametrize("method", [name for name, row in METHODS.items() if row.posterior_input == "transition"])
def test_where_q_sees_transitions_no_one_goal_stands_for_a_state(method):
    policy = policy_of(*random_policies(method), None)
    with pytest.raises(ValueError, match=f"q of {method} sees transitions.*valid: act\\(obs, goal_state=") as error:
        policy.embed(np.ones(4, np.float32))
    assert "\n" not in str(error.value)


def test_a_target_state_is_the_goal_that_stands_for_it():
    """Also where q sees an action: at rest in the target."""
    program, runs = random_policies("infogail")
    policy = policy_of(program, jax.tree.map(jax.numpy.asarray, runs), None)
    targets = np.random.default_rng(0).normal(size=(30, 4)).astype(np.float32)
    obs = np.zeros(4, np.float32)
    assert len({int(policy.embed(x)) for x in targets}) > 1
    for target in targets:
        asked, meant = policy.act(obs, goal_state=target), policy.act(obs, z=policy.embed(target))
        np.testing.assert_allclose(asked, meant, atol=1e-6)
