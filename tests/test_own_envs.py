"""Environments however they are given: by name, by class, by function, made; with arguments, and ranges for goals."""

import base64
import contextlib
import functools
import json

import gymnasium
import numpy as np
import pytest

import vgcrl
from foreign_envs import Ship
from test_foreign import KEYS, one_line
from tiny import flags
from untrained import untrained
from vgcrl.cli import main
from vgcrl.envs import find, modules, own
from vgcrl.envs.gymnasium_engine import Foreign
from vgcrl.errors import UsageError
from vgcrl.show.explorer.export import export_run
from vgcrl.training.options import Options
from vgcrl.training.resolve import resolve
from vgcrl.training.run_folder import command_for, read_config
from vgcrl.use.given import to_options

pytestmark = pytest.mark.usefixtures("unrendered")

SHIP = "foreign_envs:Ship"


def drift(name, env_arg=(), workers=0):
    """What a ship sees after a step without a motor: the current it was made with."""
    worlds = Foreign(name, 1, 2, horizon=6, workers=workers, env_arg=env_arg)
    worlds.reset(KEYS[:1])
    seen = worlds.step(np.zeros((1, 2, 2), np.float32), KEYS[:1], 0).next_obs
    worlds.close()
    return seen[0, :, 0].tolist()


@pytest.mark.parametrize("workers", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_a_class_is_an_environment_by_its_name(workers):
    assert drift(SHIP, workers=workers) == [0.0, 0.0]
    assert drift(SHIP, ("current=0.25",), workers) == [0.25, 0.25]
    one_line(lambda: drift(SHIP, ("flow=1",)), SHIP, "cannot be built", "flow", "--env-arg")


def test_names_of_objects():
    assert own.named("Pendulum-v1") == ("Pendulum-v1", {}, None)
    assert own.named(Ship) == (SHIP, {}, None)
    assert own.named(gymnasium.make("Pendulum-v1", g=5.0)) == ("Pendulum-v1", {"g": 5.0}, 200)
    assert own.named(gymnasium.make("Pendulum-v1", max_episode_steps=7)).horizon == 7
    one_line(lambda: own.named(Ship()), "Ship", "its class")
    one_line(lambda: own.named(3), "--env 3")


def test_objects_without_a_name_are_told_apart():
    calm, strong = (functools.partial(Ship, current=x) for x in (0.0, 0.5))
    names = [own.named(x).env for x in (calm, strong, calm, lambda: Ship(), lambda: Ship())]
    assert all(name.startswith("local.") for name in names)
    assert names[0] == names[2]
    assert len(set(names)) == 4
    assert [drift(names[i]) for i in (0, 1)] == [[0.0, 0.0], [0.5, 0.5]]
    one_line(lambda: drift(names[0], workers=1), "--workers", names[0])
    one_line(lambda: find("local.gone"), "local.gone", "register_env")


def test_wrapped_environments_keep_their_wrappers():
    env = gymnasium.wrappers.RescaleObservation(gymnasium.make("MountainCarContinuous-v0"), -1.0, 1.0)
    name, keywords, limit = own.named(env)
    assert (keywords, limit) == ({}, 999)
    worlds = Foreign(name, 1, 1, horizon=limit, workers=0)
    assert (worlds.spec.low, worlds.spec.high) == ((-1, -1), (1, 1))
    worlds.close()


def test_time_limits():
    assert resolve(to_options({"env": Ship, "horizon": 9})).horizon == 9
    one_line(lambda: resolve(to_options({"env": Ship})), SHIP, "has no time limit", "--horizon")
    limited = lambda: gymnasium.wrappers.TimeLimit(Ship(), 5)  # noqa: E731
    assert resolve(to_options({"env": limited})).horizon == 5


def test_arguments():
    words = own.to_words({"a": 1, "b": "text", "c": [1, {"d": None}]})
    assert own.to_keywords(words) == {"a": 1, "b": "text", "c": [1, {"d": None}]}
    assert own.to_keywords(("a=x=y", "b=1,2")) == {"a": "x=y", "b": "1,2"}
    for wrong in ("a", "=1", "a-b=1"):
        one_line(lambda wrong=wrong: own.to_keywords((wrong,)), "--env-arg", "key=value")
    one_line(lambda: own.to_words({"a": object()}), "env_kwargs")
    assert own.to_words({"a": np.int64(3), "b": [np.float32(0.5)], "c": np.eye(2)[0]}) == (
        "a=3",
        "b=[0.5]",
        "c=[1.0, 0.0]",
    )
    one_line(lambda: resolve(Options(env="pointmass", env_arg=("a=1",))), "--env-arg does not apply to pointmass")
    one_line(lambda: resolve(Options(env="HalfCheetah", env_arg=("a=1",))), "--env-arg does not apply to HalfCheetah")
    one_line(lambda: to_options({"env": Ship, "env_kwargs": 3}), "env_kwargs 3")


def test_made_environments_are_made_with_their_arguments():
    config = resolve(to_options({"env": gymnasium.make("Pendulum-v1", g=5.0), "env_kwargs": {"render_mode": None}}))
    assert config.env_arg == ("g=5.0", "render_mode=null")
    assert config.build_host_envs(1, 1).pool.parts[0].envs[0].unwrapped.g == 5.0
    assert vgcrl.make("Pendulum-v1", env_kwargs={"g": 2.0}).unwrapped.g == 2.0
    assert vgcrl.make(Ship, horizon=4).spec is None


def test_arguments_as_words_and_as_a_dict_go_together():
    both = {"env": "Pendulum-v1", "env_kwargs": {"g": 5}}
    assert to_options({**both, "env_arg": "render_mode=rgb_array"})["env_arg"] == ("g=5", "render_mode=rgb_array")
    made = {"env": gymnasium.make("Pendulum-v1", g=5.0), "env_arg": ["g=2", "render_mode=null"]}
    assert to_options(made)["env_arg"] == ("g=2", "render_mode=null")
    one_line(lambda: to_options({**both, "env_arg": "g=2"}), "env_kwargs and --env-arg both have 'g'")


def test_goals_take_a_range():
    ship = {"method": "gcrl", "env": SHIP, "horizon": 6}
    one_line(lambda: resolve(Options(**ship)), "has no known range", "--goal-range low,high")
    spec = resolve(Options(**ship, goal_range=(-1.0, 2.0))).specification
    assert (spec.low, spec.high) == ((-1.0,) * 3, (2.0,) * 3)
    spec = resolve(Options(**ship, features="2,0", goal_range=(-1.0, 2.0, 3.0, 4.0))).specification
    assert (spec.low[2], spec.high[2], spec.low[0], spec.high[0]) == (-1, 2, 3, 4)
    for wrong in ((1.0,), (2.0, 1.0), (0.0, 1.0, 0.0, 1.0)):
        one_line(lambda wrong=wrong: resolve(Options(**ship, goal_range=wrong)), "--goal-range")
    one_line(lambda: resolve(Options("diayn", SHIP, horizon=6, goal_range=(0.0, 1.0))), "does not apply to diayn")


def test_a_run_remembers_its_class_and_arguments(tmp_path, capsys):
    given = resolve(to_options({"env": Ship, "env_kwargs": {"current": 0.25}, "horizon": 6}))
    assert (given.env, given.env_arg) == (SHIP, ("current=0.25",))
    run = untrained(tmp_path / "run", "diayn", env=given.env, env_arg=given.env_arg, horizon=given.horizon)
    capsys.readouterr()
    assert main(["evaluate", str(run), "--episodes", "4", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["env"] == SHIP
    wrong = ["train", "--env", SHIP, "--env-arg", "current", *flags(horizon=6, seeds=1)]
    assert main([*wrong, "--out", str(tmp_path / "other")]) == 2
    assert "--env-arg 'current' is not understood" in capsys.readouterr().err


def test_a_class_that_is_given_again_is_described_again():
    """As a cell of a notebook that is run twice: another class of the same module and name."""
    for high in (5.0, 7.0):
        harbour = type("Harbour", (Ship,), {"observation_space": gymnasium.spaces.Box(-high, high, (3,))})
        config = resolve(to_options({"method": "diayn", "env": harbour, "horizon": 6}))
        assert config.env == f"{__name__}:Harbour"
        assert config.specification.high == (high,) * 3


def test_what_an_environment_raises_at_its_start_is_a_usage_error_in_python():
    class Shut(Ship):
        def reset(self, **options):
            if started:
                raise ValueError("the harbour is shut")
            return super().reset(**options)

    started = False
    program = vgcrl.compile("diayn", env=Shut, horizon=6, seeds=1, envs=1)
    started = True
    one_line(program.init, "Shut: ValueError: the harbour is shut at ")


@pytest.mark.parametrize("horizon", [None, 6])
def test_what_is_built_to_ask_something_is_closed(horizon):
    made = []

    class Port(Ship):
        def __init__(self):
            super().__init__()
            made.append(self)

        def close(self):
            made.remove(self)

    options = {"env": Port} | ({} if horizon is None else {"horizon": horizon})
    with contextlib.suppress(UsageError):  # without a time limit
        resolve(to_options(options))
    assert made == []


def test_goals_of_a_page_that_plays_back_are_asked_for(tmp_path, capsys):
    """And what each came to is on its label."""
    run = untrained(tmp_path / "ship", "gcrl", env=SHIP, features="0", goal_range=(-1.0, 1.0), seeds=1, horizon=6)
    asked = [[0.25], [-0.5]]
    episodes = export_run(run, print, False, asked)["world"]["episodes"]
    for episode, (goal,) in zip(episodes, asked, strict=True):
        seen = episode["observations"]
        assert seen["shape"][0] == 6 + 1, "the start, and what came of each step"
        last = np.frombuffer(base64.b64decode(seen["f32"]), "<f4").reshape(seen["shape"])[-1, 0]
        assert episode["label"] == f"to {goal:.2f}: reached {np.round(last, 2) + 0.0:.2f}".replace("-", "−")
    assert main(["explore", str(run), "--goal", "9"]) == 2
    assert "--goal 9 is out of range" in capsys.readouterr().err
    ground = untrained(tmp_path / "ground", "diayn", env="pointmass", goal_dim=3)
    assert main(["explore", str(ground), "--skills", "1"]) == 2
    assert "chosen on its page" in capsys.readouterr().err


def test_a_printed_command_imports_what_only_this_folder_has(tmp_path, monkeypatch):
    (tmp_path / "harbour.py").write_text("")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))  # as a command does
    assert modules.to_import("harbour:Boat-v0", ["mine"]) == " --import harbour --import mine"
    assert modules.to_import("gymnasium.envs:Pendulum-v1", []) == ""
    assert modules.to_import("pointmass", []) == ""
    run = untrained(tmp_path / "a run", "diayn", env=SHIP, seeds=1, horizon=6)
    assert command_for("explore", run, read_config(run)) == f"vgcrl explore '{run}'"  # PYTHONPATH has tests


def of_space(space):
    """An environment that shows samples of a space."""

    class Shows(gymnasium.Env):
        observation_space, action_space = space, gymnasium.spaces.Discrete(3)

        def reset(self, *, seed=None, options=None):
            return self.observation_space.sample(), {}

        def step(self, action):
            return self.observation_space.sample(), 0.0, False, False, {}

    return own.named(lambda: Shows()).env


SPACES = gymnasium.spaces
NOT_ARRAYS = {
    "Discrete": SPACES.Discrete(16, start=3),
    "MultiDiscrete": SPACES.MultiDiscrete([4, 4]),
    "in rows": SPACES.MultiDiscrete([[2, 2], [2, 2]]),
    "Dict": SPACES.Dict(kind=SPACES.Discrete(3), place=SPACES.Box(-1, 1, (2, 2))),
    "Tuple": SPACES.Tuple((SPACES.Discrete(3), SPACES.Box(-1, 1, (2,)))),
}


@pytest.mark.parametrize("space", NOT_ARRAYS.values(), ids=NOT_ARRAYS)
def test_a_policy_takes_observations_as_the_environment_gives_them(space, tmp_path):
    space.seed(0)
    seen = [space.sample() for _ in range(16)]
    flat = np.stack([SPACES.flatten(space, each) for each in seen]).astype(np.float32)
    policy = vgcrl.load(untrained(tmp_path, "diayn", env=of_space(space), horizon=8, workers=0))
    wanted = policy.act(flat, z=1)
    assert wanted.shape == (16,)
    assert [policy.act(each, z=1) for each in seen] == wanted.tolist()
    assert policy.act(seen, z=1).tolist() == wanted.tolist()
    if not isinstance(seen[0], (dict, tuple)):
        assert policy.act(np.array(seen), z=1).tolist() == wanted.tolist()
    assert policy.embed(seen[0]) == policy.embed(flat[0])
    for wrong in (None, "left", [], [[0.5, 0.5], [0.5]], {"other": 0}, -1):
        with pytest.raises(ValueError, match=r"obs is no observation of local\.|has shape"):
            policy.act(wrong, z=1)


def test_target_states_may_be_observations_as_the_environment_gives_them(tmp_path):
    space = SPACES.Discrete(16)
    run = untrained(tmp_path, "diayn", env=of_space(space), horizon=8, workers=0)
    flat = np.eye(16, dtype=np.float32)
    given = vgcrl.evaluate(run, targets=np.arange(16), episodes=2)
    assert given["targets"] == "16 states given"
    assert vgcrl.evaluate(run, targets=flat, episodes=2)["targets"] == "16 states given"
    (tmp_path / "targets.json").write_text("[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]")
    assert vgcrl.evaluate(run, targets=tmp_path / "targets.json", episodes=2)["targets"].endswith("targets.json")


@pytest.mark.parametrize(
    ("low", "high", "first", "last", "told"),
    [
        (0.0, 7e6, 0.0, 7e6, False),
        (-2e9, 2e9, -2e9, 2e9, False),
        (-np.inf, np.inf, -1.0, 1.0, True),
        (-3e38, 5.0, 3.0, 5.0, True),
        (5.0, np.inf, 5.0, 7.0, True),
    ],
)
def test_bounds_of_actions_are_kept_and_those_made_up_are_told(low, high, first, last, told):
    class Thrust(Ship):
        action_space = gymnasium.spaces.Box(low, high, (2,))

    worlds = Foreign(own.named(lambda: Thrust()).env, 1, 1, horizon=6, workers=0)
    assert worlds.spec.action_low == pytest.approx((first, first))
    assert worlds.spec.action_high == pytest.approx((last, last))
    assert ("actions without bounds" in worlds.spec.remark) == told
    worlds.close()


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("a=False",), "--env-arg a=False would be text; valid: a=false"),
        (("a=None",), "a=null"),
        (("a=1", "b=2", "a=3"), "--env-arg a is given twice"),
    ],
)
def test_words_that_would_mean_something_else_are_refused(words, expected):
    one_line(lambda: own.to_keywords(words), expected)


def test_words_that_are_json_or_text():
    assert own.to_keywords(("a=false", "b=Falsehood", 'c="None"')) == {"a": False, "b": "Falsehood", "c": "None"}


def test_a_module_is_no_file():
    one_line(lambda: modules.import_named("boat.py", "--import"), "'boat.py' is a file; valid: a module, 'boat'")
