"""Observations that are no arrays; environments that have goals of their own."""

import dataclasses
import json
import subprocess
import sys

import gymnasium
import jax
import numpy as np
import pytest
from gymnasium import spaces

import foreign_envs
import vgcrl
from test_foreign import KEYS, one_line
from tiny import TINY, flags
from untrained import untrained
from vgcrl.cli import main
from vgcrl.envs import gymnasium_film
from vgcrl.envs.goal_envs import OwnSuccess
from vgcrl.envs.gymnasium_engine import Foreign
from vgcrl.objective.methods import METHODS
from vgcrl.show import film as films
from vgcrl.show.explorer.export import export_run
from vgcrl.show.film import Request
from vgcrl.training import evaluation
from vgcrl.training.host_program import compile_config
from vgcrl.training.options import Options
from vgcrl.training.resolve import resolve
from vgcrl.training.summary import summarise

pytestmark = pytest.mark.usefixtures("unrendered")

REACH = "foreign_envs:Reach-v0"


def reach(*env_arg, workers=0):
    return Foreign(REACH, 2, 3, horizon=6, workers=workers, env_arg=env_arg)


def test_several_kinds_of_observation_are_flattened():
    worlds = Foreign("foreign_envs:Mixed-v0", 1, 1, horizon=6, workers=0)
    assert (worlds.spec.obs_dim, worlds.spec.goal) == (6, ())
    assert (worlds.spec.low, worlds.spec.high) == ((0, 0, 0, -1, -1, 0), (1, 1, 1, 1, 1, 9))
    assert "are flattened to 6 numbers" in worlds.spec.remark
    assert worlds.reset(KEYS[:1]).tolist() == [[[0, 0, 1, 0, 0, 7]]]
    out = worlds.step(np.array([[[0.5, -0.5]]], np.float32), KEYS[:1], 0)
    assert out.next_obs.tolist() == [[[0, 1, 0, 0.5, -0.5, 8]]]
    worlds.close()


@pytest.mark.parametrize("workers", [0, pytest.param(2, marks=pytest.mark.slow)])
def test_goal_environments(workers):
    """The desired goal is no part of the observation, and belongs to the episode under way."""
    worlds = reach(workers=workers)
    spec = worlds.spec
    assert (spec.obs_dim, spec.goal, spec.features) == (5, (3, 4), (3, 4))
    assert worlds.reset(KEYS).shape == (2, 3, 5)
    before = worlds.desired()
    assert before.shape == (2, 3, 2)
    action = before.copy()
    action[0, 1] = -before[0, 1]
    action[1, 2] = 1.0
    out = worlds.step(action, KEYS, 0)
    assert worlds.succeeded().tolist() == [[1, 0, 1], [1, 1, 0]]
    np.testing.assert_allclose(out.next_obs[..., 3:], action, atol=1e-6)
    kept = (worlds.desired() == before).all(axis=-1)
    np.testing.assert_array_equal(kept, ~out.last, "a new goal where an episode ended")
    worlds.close()


def test_an_end_at_its_own_goal_is_none_of_the_goal_pursued():
    """It is as a time limit; another end is one."""
    worlds = reach("ends=true")
    worlds.reset(KEYS)
    action = worlds.desired().copy()
    action[0, 1], action[1, 0] = 1.0, -np.sign(action[1, 0])
    out = worlds.step(action, KEYS, 0)
    assert out.last.tolist() == [[True, True, True], [False, True, True]]
    assert out.terminal.tolist() == [[False, True, False], [False, False, False]]
    worlds.close()


@pytest.mark.parametrize(("tells", "expected"), [("success", 1.0), ("reward", 1.0), ("nothing", np.nan)])
def test_success_is_as_the_environment_tells(tells, expected):
    worlds = reach(f"tells={tells}")
    worlds.reset(KEYS)
    goals = worlds.desired()
    worlds.step(goals, KEYS, 0)
    np.testing.assert_array_equal(worlds.succeeded(), np.full((2, 3), expected))
    worlds.step(-np.sign(goals), KEYS, 1)
    np.testing.assert_array_equal(worlds.succeeded(), np.full((2, 3), 0 * expected))
    worlds.close()


def test_range_of_goals_is_that_of_those_asked_for():
    config = resolve(Options("gcrl", REACH))
    low, high = (np.array(x)[[3, 4]] for x in (config.specification.low, config.specification.high))
    assert (low > [-0.8, -0.4]).all()
    assert (low < [-0.7, -0.3]).all()
    assert (high > [0.7, 0.3]).all()
    assert (high < [0.8, 0.4]).all()
    one_line(lambda: resolve(Options("gcrl", REACH, env_arg=("fixed=true",))), "has no known range", "--goal-range")
    assert resolve(Options("gcrl", REACH, goal_range=(-1.0, 1.0))).specification.low[3:] == (-1.0, -1.0)


def test_shares_of_success():
    """An episode that has ended counts no more."""
    own = OwnSuccess((1, 3))
    for now, last in (([0, 1, 0], [0, 0, 1]), ([1, 0, 1], [0, 0, 0]), ([1, 0, 1], [1, 1, 1])):
        own.follow(np.array([now], float), np.array([last], bool))
    assert {name: x.tolist() for name, x in own.rates().items()} == {
        "env_success": [pytest.approx(2 / 3)],
        "env_success_end": [pytest.approx(1 / 3)],
    }
    own.follow(np.array([[np.nan] * 3]), np.zeros((1, 3), bool))
    assert OwnSuccess((1, 1)).rates() == {}


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ([np.nan, np.nan, 1.0], {"env_success": [1.0], "env_success_end": [1.0]}),  # told at the end only
        ([np.nan, 0.0, np.nan], {"env_success": [0.0]}),
        ([np.nan, np.nan, np.nan], {}),
    ],
)
def test_success_need_not_be_told_at_every_step(said, expected):
    own = OwnSuccess((1, 1))
    for i, each in enumerate(said):
        own.follow(np.array([[each]]), np.array([[i == 2]]))
    assert {name: x.tolist() for name, x in own.rates().items()} == expected


def test_a_policy_that_goes_where_it_is_asked_has_success(monkeypatch):
    """The environment goes where the action says, and the goal is that place: z itself is the best action."""
    program = compile_config(resolve(Options("gcrl", REACH, **TINY)))
    state, seen = program.init(), {}
    for name, chosen in {"asked": lambda z: z, "elsewhere": lambda z: -jax.numpy.sign(z)}.items():
        monkeypatch.setattr(evaluation, "act", lambda p, run, obs, z, noise, chosen=chosen: chosen(z))
        program._evaluators.clear()
        seen[name] = summarise(program, jax.device_get(program.evaluate(state)))["mean"]
    assert (seen["asked"]["env_success"], seen["asked"]["env_success_end"]) == (1.0, 1.0)
    assert seen["asked"]["lgr_s"] < 1e-10
    assert seen["elsewhere"]["env_success"] == 0.0


def test_a_run_says_what_it_sees_and_how_often_it_succeeds(tmp_path, capsys):
    assert main(["train", "gcrl", "--env", REACH, "--out", str(tmp_path / "run"), *flags()]) == 0
    said = capsys.readouterr().err
    assert f"{REACH}: a goal environment: q sees the achieved goal, dimensions 3 to 4 of the observation" in said
    steps = [line for line in said.splitlines() if line.startswith("step ")]
    assert steps
    assert all(" env success " in line for line in steps)
    assert main(["evaluate", str(tmp_path / "run"), "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert {0 <= row["env_success_end"] <= row["env_success"] <= 1 for row in record["seeds"]} == {True}
    page = (tmp_path / "run" / "report.html").read_text()
    assert "environment&#39;s success: share of episodes in which" in page
    assert "its success at the end: the same at the last step" in page


def test_mazes_are_known_by_their_ids():
    """gymnasium-robotics registers them when it is imported, which nobody has to know."""
    pytest.importorskip("gymnasium_robotics")
    words = "import sys; from vgcrl.envs import find; print(find('PointMaze_UMaze-v3').options['horizon'])"
    done = subprocess.run([sys.executable, "-c", words], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("300\n", "")


def test_defaults_of_goal_environments():
    """Where goals are states; what is given stays, and what does not go with it is left out."""
    usual = resolve(Options("gcrl", REACH))
    assert (usual.posterior, usual.relabel_state, usual.relabel_fraction) == ("state-floored", "later", (0.8,))
    assert (usual.discount, usual.reward, usual.goal_steps) == (0.99, "progress", 50)
    low, high = (
        np.array(x)[list(usual.specification.goal)] for x in (usual.specification.low, usual.specification.high)
    )
    assert usual.sigma == pytest.approx(np.mean(high - low) / 12, rel=0.05)
    asked = resolve(Options("gcrl", REACH, posterior="state-fixed", discount=0.9, relabel="none", sigma=2.0))
    assert (asked.posterior, asked.discount, asked.relabel_state, asked.sigma) == ("state-fixed", 0.9, "final", 2.0)
    assert resolve(Options("gcrl", REACH, critic="successor")).posterior == "state-fixed"
    assert resolve(Options("diayn", REACH)).discount == 0.99


PURSUED = {
    "steps": 100_000,
    "hidden": (128, 128),
    "learning_rate": (1e-3,),
    "posterior_learning_rate": (1e-3,),
    "random_steps": 3_000,
    "evaluate_episodes": 25,
    "relabel_state": "later",
    "relabel_fraction": (0.8,),
}
NOT_HINDSIGHT = {name: x for name, x in PURSUED.items() if not name.startswith("relabel")}
FLOORED = {"posterior": "state-floored"}
AROUND = {
    "sigma": 0.099,
    "reward": "progress",
    "initial_alpha": 0.01,
    "target_rate": 0.02,
    "goal_steps": 50,
}
DIFFERENCES = {
    ("gcrl",): PURSUED | AROUND | FLOORED,
    ("gcrl", "relabel", "none"): NOT_HINDSIGHT | AROUND | FLOORED,
    ("gcrl", "critic", "successor"): PURSUED | AROUND,
    ("gcrl", "posterior", "state-fixed"): PURSUED | AROUND,
    ("agcrl",): PURSUED | {"posterior_learning_rate": (5e-3,), "discount": 0.998, "initial_alpha": 0.1, "sigma": 0.2},
    ("diayn",): {},
    ("discern",): {},
}


@pytest.mark.parametrize("command", DIFFERENCES, ids=" ".join)
def test_what_a_goal_environment_changes(command, monkeypatch):
    """All of it, and it stands in the method's row: without that, options are as in any other environment."""
    method, given = command[0], dict(zip(command[1::2], command[2::2], strict=True))
    options = Options(method, REACH, evaluate_every=10_000, **given)
    here = dataclasses.asdict(resolve(options))
    monkeypatch.setitem(METHODS, method, METHODS[method]._replace(of_goal_envs={}))
    elsewhere = dataclasses.asdict(resolve(options))
    assert {name: x for name, x in here.items() if x != elsewhere[name]} == DIFFERENCES[command]


@pytest.mark.parametrize(("goal_range", "sigma"), [((-0.6, 0.6), 0.1), ((-0.6, 0.6, -0.3, 0.3), 0.075)])
def test_defaults_follow_the_range_that_is_asked_for(goal_range, sigma):
    assert resolve(Options("gcrl", REACH, goal_range=goal_range)).sigma == sigma


def test_defaults_of_goals_without_a_range_wait_for_one():
    same_place = ("fixed=true",)
    one_line(lambda: resolve(Options("gcrl", REACH, env_arg=same_place)), "has no known range")
    config = resolve(Options("gcrl", REACH, env_arg=same_place, goal_range=(-1.2, 1.2)))
    assert (config.sigma, config.reward) == (0.2, "progress")


def test_a_row_with_another_posterior_leaves_out_those_that_it_cannot_use(monkeypatch):
    monkeypatch.setitem(METHODS, "mine", METHODS["gcrl"]._replace(posteriors=("state-fixed",)))
    assert resolve(Options("mine", REACH)).posterior == "state-fixed"
    there = resolve(Options("mine", "HalfCheetah", engine="mujoco", positions=True))
    assert (there.posterior, there.reward) == ("state-fixed", "progress")


class Stuck(foreign_envs.Reach):
    """What it does when it is reset is chosen."""

    def __init__(self, does="fail"):
        super().__init__()
        self.does = does

    def reset(self, **options):
        if self.does == "fail":
            raise RuntimeError("no start")
        if self.does == "exit":
            sys.exit(4)
        obs, info = super().reset(**options)
        return obs | {"desired_goal": np.zeros(3, np.float32)}, info


@pytest.mark.parametrize(
    ("does", "words"),
    [
        ("fail", ("cannot be described: RuntimeError: no start at ", "test_goal_envs.py:")),
        ("exit", ("cannot be described: SystemExit: 4",)),
        ("grow", ("desired_goal has 3 numbers, achieved_goal 2",)),
    ],
)
def test_one_that_cannot_be_reset_is_told_of(does, words):
    name, env_arg = "test_goal_envs:Stuck", (f"does={does}",)
    one_line(lambda: Foreign(name, 1, 1, horizon=6, workers=0, env_arg=env_arg), f"--env {name}", *words)


class Rooms(gymnasium.Env):
    """Goals are rooms, of which an action chooses the next."""

    room = spaces.Discrete(4)
    observation_space = spaces.Dict(observation=spaces.Discrete(2), achieved_goal=room, desired_goal=room)
    action_space = spaces.Discrete(4)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.desired = self.np_random.integers(4)
        return self._see(0), {}

    def _see(self, room):
        return {"observation": 1, "achieved_goal": room, "desired_goal": self.desired}

    def step(self, action):
        return self._see(action), 0.0, False, False, {}

    def compute_reward(self, achieved, desired, info):
        return float(achieved == desired)


def test_goals_may_be_choices():
    """Both of them are seen as one number for each choice."""
    worlds = Foreign("test_goal_envs:Rooms", 1, 3, horizon=6, workers=0)
    assert (worlds.spec.obs_dim, worlds.spec.goal) == (6, (2, 3, 4, 5))
    worlds.reset(KEYS[:1])
    goals = worlds.desired()
    assert goals.shape == (1, 3, 4)
    assert goals.sum() == 3
    seen = worlds.step(goals, KEYS[:1], 0).next_obs
    np.testing.assert_array_equal(seen[..., 2:], goals)
    assert worlds.succeeded().tolist() == [[1, 1, 1]]
    worlds.close()


def test_a_policy_for_goals_that_are_choices_takes_what_it_was_trained_on(tmp_path):
    run = untrained(tmp_path / "run", "gcrl", env="test_goal_envs:Rooms", horizon=6, seeds=1)
    policy, seen = vgcrl.load(run), np.eye(6)
    assert policy.act(seen[2], goal_state=seen[3]) in range(4)
    with pytest.raises(ValueError, match=r"obs has shape \(2,\), the environment's observations have \(6,\)"):
        policy.predict({"observation": 1, "achieved_goal": 0, "desired_goal": 2})


def test_films_and_pages_pursue_what_the_environment_asks_for(tmp_path, monkeypatch):
    folder, said, seeds = untrained(tmp_path / "run", "gcrl", env=REACH, horizon=4, seeds=1), [], []
    env = gymnasium.make(REACH)
    asked = [env.reset(seed=seed)[0]["desired_goal"] for seed in range(8)]

    def told(goal, digits):
        return "to " + ", ".join(f"{x:.{digits}f}" for x in goal)

    labels = [each["label"] for each in export_run(folder, said.append, False, None)["world"]["episodes"]]
    assert [label.split(":")[0] for label in labels] == [told(goal, 2).replace("-", "−") for goal in asked]
    assert "recording 8 episodes of at most 4 steps" in said

    def filmed(env, env_arg, steps, act, seed):
        seeds.append(seed)
        return gymnasium_film.Episode(np.zeros((1, 5)), [np.zeros((8, 8, 3), np.uint8)] * (steps + 1))

    monkeypatch.setattr(gymnasium_film, "filmed", filmed)
    assert films.scenes(folder, Request(), said.append).labels == [told(goal, 1) for goal in asked[:4]]
    assert films.scenes(folder, Request([(0.5, 0.25)]), said.append).labels == ["to 0.5, 0.2"]
    assert seeds == [0, 1, 2, 3, 0]
    skills = untrained(tmp_path / "skills", "diayn", env=REACH, horizon=4, seeds=1, goal_dim=3)
    assert films.scenes(skills, Request(), said.append).labels == ["skill 0", "skill 1", "skill 2"]
