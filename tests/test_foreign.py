"""Gymnasium environments as `Worlds`, against environments whose answers are known and against Gymnasium itself."""

import builtins
import ctypes
import json
import math
import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

import vgcrl
from foreign_envs import Whole
from tiny import TINY, flags
from untrained import untrained
from vgcrl.cli import main
from vgcrl.envs import bodies, contract, find, gymnasium_engine
from vgcrl.envs.contract import Broken, generator
from vgcrl.envs.gymnasium_engine import Foreign
from vgcrl.errors import UsageError, install
from vgcrl.training.options import Options
from vgcrl.training.resolve import resolve

pytestmark = pytest.mark.usefixtures("unrendered")

ECHO = "foreign_envs:Echo-v0"
KEYS = np.array([[1, 2], [3, 4]], np.uint32)
CALM, TERMINATE, TRUNCATE, RAISE, EXIT = (
    np.array(x, np.float32) for x in ([0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1], [0, 0, -1])
)
ACTED, TIME, START = slice(3), 3, 4  # Echo's observation, flattened


def echo(runs=2, count=3, horizon=6, workers=0):
    return Foreign(ECHO, runs, count, horizon=horizon, workers=workers)


def all_of(action, runs=2, count=3):
    return np.broadcast_to(action, (runs, count, 3))


def trajectory(worlds, keys=KEYS, steps=15, which=slice(None)):
    """Everything seen under random actions, which end some episodes early."""
    seen = [worlds.reset(keys)]
    for clock in range(steps):
        action = np.random.default_rng(clock).uniform(-1, 1, (2, 3, worlds.spec.action_dim)).astype(np.float32)
        action[..., -1] *= 0.5
        action[0, 1, 0] = 1.0 if clock % 5 == 2 else 0.0
        seen += worlds.step(action[which], keys, clock)
    return seen


def one_line(call, *words):
    with pytest.raises(UsageError) as error:
        call()
    assert "\n" not in str(error.value)
    for word in words:
        assert word in str(error.value)


def test_spec():
    worlds = echo()
    spec = worlds.spec
    assert (spec.obs_dim, spec.action_dim, spec.horizon, spec.seconds) == (6, 3, 6, 0.25)
    assert spec.low == (-1, 0, -math.inf, 0, 0, -math.inf)
    assert spec.high == (3, 10, math.inf, 20, 1, math.inf)
    assert (spec.action_low, spec.action_high) == ((-1, 0, -1), (3, 10, 1))
    assert (spec.position, spec.velocity, spec.features, spec.facts) == ((), (), tuple(range(6)), {})
    assert worlds.save() == {}
    assert not worlds.load({})
    worlds.close()


def test_actions_arrive_in_the_units_of_the_environment():
    worlds = echo()
    worlds.reset(KEYS)
    for clock, action in enumerate(([-1, -1, -0.5], [0, 0, 0], [0.5, 0.1, 0.5])):
        out = worlds.step(all_of(np.array(action, np.float32)), KEYS, clock)
        expected = [1 + 2 * action[0], 5 + 5 * np.float32(action[1]), action[2]]
        np.testing.assert_allclose(out.next_obs[..., ACTED], all_of(np.array(expected)), rtol=1e-6)
    assert out.next_obs.shape == (2, 3, 6)
    assert out.next_obs.dtype == np.float32
    worlds.close()


def test_actions_of_whole_numbers():
    worlds = Foreign("foreign_envs:Whole-v0", 1, 1, horizon=6, workers=0)
    worlds.reset(KEYS)
    out = worlds.step(np.array([[[-1, -0.3, 0.8, 1]]], np.float32), KEYS, 0)
    assert out.next_obs.tolist() == [[[0, 1, 4, 4]]]
    assert (worlds.spec.low, worlds.spec.high, worlds.spec.seconds) == ((0,) * 4, (255,) * 4, 1.0)
    worlds.close()


def test_actions_that_are_switches():
    worlds = Foreign("foreign_envs:Switches-v0", 1, 1, horizon=6, workers=0)
    keys = np.zeros((1, 2), np.uint32)
    worlds.reset(keys)
    seen = worlds.step(np.array([[[-1.0, -0.2, 0.2, 1.0]]], np.float32), keys, 0).next_obs
    assert seen.ravel().tolist() == [0, 0, 1, 1]
    worlds.close()


def test_actions_are_in_the_space():
    """At its bounds too, where single precision is past them; with one bound, within 2 of it; never a fraction."""
    from gymnasium import spaces

    low, high = np.array([-0.1, -np.inf, 5.0, -np.inf]), np.array([0.3, np.inf, np.inf, 0.5])
    for space in (spaces.Box(low, high, dtype=np.float64), spaces.Box(-3, 1, (2, 2), np.int32)):
        env = SimpleNamespace(observation_space=spaces.Box(0, 1, (1,)), action_space=space)
        spec = gymnasium_engine.describe(env, 10)
        for action in np.linspace(-1, 1, 21, dtype=np.float32):
            assert space.contains(spec.native(np.full(4, action)))
    assert spec.native(np.array([[-1, -0.3, 0.3, 1]])).tolist() == [[[-3, -2], [0, 1]]]
    free = gymnasium_engine.describe(
        SimpleNamespace(**vars(env) | {"action_space": spaces.Box(low, high, dtype=np.float64)}), 10
    )
    assert (free.action_low, free.action_high) == ((-0.1, -1, 5, -1.5), (0.3, 1, 7, 0.5))


@pytest.mark.parametrize("horizon", [3, 9])  # shorter and longer than registered
def test_time_limit_is_no_termination(horizon):
    worlds = echo(horizon=horizon)
    started = worlds.reset(KEYS)
    for clock in range(2 * horizon):
        out = worlds.step(all_of(CALM), KEYS, clock)
        time = clock % horizon + 1
        assert not out.terminal.any()
        assert (out.last == (time == horizon)).all()
        assert (out.next_obs[..., TIME] == time).all()
        assert (out.next_obs[..., START] == started[..., START]).all()
        if time == horizon:
            assert (out.obs[..., TIME] == 0).all()
            assert (out.obs[..., START] != started[..., START]).all()
            started = out.obs
        else:
            assert (out.obs == out.next_obs).all()
    worlds.close()


def test_episodes_end_one_by_one():
    worlds = echo()
    worlds.reset(KEYS)
    action = all_of(CALM).copy()
    action[0, 1], action[1, 2] = TERMINATE, TRUNCATE
    out = worlds.step(action, KEYS, 0)
    assert np.argwhere(out.terminal).tolist() == [[0, 1]]
    assert np.argwhere(out.last).tolist() == [[0, 1], [1, 2]]
    assert (out.next_obs[..., TIME] == 1).all()
    assert (out.obs[..., TIME] == ~out.last).all()
    for clock in range(1, 6):  # the others are at their limit one step earlier
        later = worlds.step(all_of(CALM), KEYS, clock)
    assert (later.last == ~out.last).all()
    worlds.close()


def test_termination_at_the_limit_is_a_termination():
    worlds = echo(horizon=1)
    worlds.reset(KEYS)
    out = worlds.step(all_of(TERMINATE), KEYS, 0)
    assert out.terminal.all()
    assert out.last.all()
    worlds.close()


def test_runs_are_functions_of_their_keys():
    both, again, alone = echo(), echo(), echo(runs=1)
    first = trajectory(both)
    for mine, other, resumed in zip(first, trajectory(again), trajectory(both), strict=True):
        np.testing.assert_array_equal(mine, other)
        np.testing.assert_array_equal(mine, resumed)
    for run in range(2):
        one = slice(run, run + 1)
        for mine, other in zip(first, trajectory(alone, KEYS[one], which=one), strict=True):
            np.testing.assert_array_equal(mine[one], other)
    starts = {x for obs in first[0] for x in obs[:, START].tolist()}
    assert len(starts) == 6
    assert (trajectory(again, KEYS + 1)[0] != first[0]).any()
    for worlds in (both, again, alone):
        worlds.close()


def test_processes_are_as_threads(monkeypatch):
    monkeypatch.setenv("JAX_PLATFORMS", "elsewhere")
    threads, processes = echo(), echo(workers=2)
    assert os.environ["JAX_PLATFORMS"] == "elsewhere"
    action = all_of(CALM).copy()
    action[1, 0] = RAISE
    for worlds, place in ((threads, "elsewhere"), (processes, "cpu")):
        worlds.reset(KEYS)
        with pytest.raises(Broken) as error:
            worlds.step(action, KEYS, 0)
        assert str(error.value).startswith(f"{ECHO}: ValueError: boom on {place} at ")
    for mine, other in zip(trajectory(threads), trajectory(processes), strict=True):  # a reset mends them
        np.testing.assert_array_equal(mine, other)
    workers = [part.process for part in processes.pool.parts]
    assert all(worker.is_alive() for worker in workers)
    threads.close()
    processes.close()
    for worker in workers:
        worker.join()  # a busy machine may have taken longer than `close` waits, and then it was ended
    assert all(worker.exitcode in (0, -signal.SIGKILL) for worker in workers)


def signals_of(mask, pid):
    lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    (bits,) = [int(line.split()[1], 16) for line in lines if line.startswith(mask)]
    return {number for number in signal.valid_signals() if bits >> (number - 1) & 1}


REQUESTS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def test_a_worker_never_hears_of_a_request_to_stop():
    """From its first moment; and the parent does again."""
    worlds = echo(1, 1, workers=1)
    pid = worlds.pool.parts[0].process.pid
    for number in REQUESTS:
        os.kill(pid, number)
    worlds.reset(KEYS)
    for number in REQUESTS:
        os.kill(pid, number)
    worlds.step(all_of(CALM, 1, 1), KEYS, 0)
    assert not signals_of("SigBlk", os.getpid()) & set(REQUESTS)
    for mask in ("SigBlk", "SigIgn"):  # processes that an environment starts would inherit it
        assert not signals_of(mask, pid) & set(REQUESTS)
    worlds.close()


WITH_WORKER = """
import os, signal, sys, threading, numpy as np
from vgcrl.envs.gymnasium_engine import Foreign
if __name__ == "__main__":
    worlds, keys = Foreign("foreign_envs:Sleeper", 1, 1, horizon=6, workers=1), np.array([[1, 2]], np.uint32)
    worlds.reset(keys)
    print("ready", flush=True)
"""


KILLED = "os.kill(os.getpid(), signal.SIGKILL)"
KILLED_IN_A_STEP = "threading.Timer(0.5, os.kill, [os.getpid(), 9]).start(); worlds.step(np.zeros((1, 1, 3)), keys, 0)"


@pytest.mark.parametrize("how", ["", "raise SystemExit(1)", KILLED, KILLED_IN_A_STEP])
def test_a_worker_ends_with_its_parent(how, tmp_path):
    """Though it does not hear the SIGTERM by which multiprocessing would end it, and wait for ever.

    It has the pipe too that is read here, to its end.
    """
    script = tmp_path / "with_worker.py"
    script.write_text(f"{WITH_WORKER}    {how}\n", encoding="utf-8")
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, script], stdout=subprocess.PIPE, encoding="utf-8", env=environment, timeout=60, check=False
    )
    assert done.stdout == "ready\n"
    assert done.returncode == (-signal.SIGKILL if "kill" in how else 1 if how else 0)


def test_a_dead_worker_is_told():
    worlds = echo(1, 1, workers=1)
    worlds.reset(KEYS)
    for _ in range(2):
        with pytest.raises(Broken, match=f"{ECHO}: a worker process died, exit code 3"):
            worlds.step(all_of(EXIT, 1, 1), KEYS, 0)
    worlds.close()


def test_an_environment_broken_at_reset(monkeypatch):
    import foreign_envs

    worlds = echo()
    monkeypatch.setattr(foreign_envs.Echo, "reset", lambda self, seed, options: None)
    with pytest.raises(Broken, match="Echo-v0: TypeError: cannot unpack"):
        worlds.reset(KEYS)
    monkeypatch.setattr(foreign_envs.Echo, "reset", lambda self, seed, options: (np.zeros(7), {}))
    with pytest.raises(Broken, match=r"Echo-v0: ValueError: the observation array\(.* is not in its space Box\("):
        worlds.reset(KEYS)
    worlds.close()


class Mute(Exception):
    def __str__(self):
        raise RuntimeError("no word")


def test_an_exception_that_cannot_tell_of_itself_is_told_by_its_name(monkeypatch):
    import foreign_envs

    def fail(self, action):
        raise Mute

    worlds = echo()
    worlds.reset(KEYS)
    monkeypatch.setattr(foreign_envs.Echo, "step", fail)
    with pytest.raises(Broken, match=r"Echo-v0: Mute at .*test_foreign\.py"):
        worlds.step(all_of(CALM), KEYS, 0)
    worlds.close()


@pytest.mark.parametrize("end", [np.array(True), np.bool_(True), 1, np.array([True]), 1.0])
def test_an_end_of_an_episode_may_be_an_array_of_one(end, monkeypatch):
    import foreign_envs

    worlds = echo()
    worlds.reset(KEYS)
    monkeypatch.setattr(foreign_envs.Echo, "step", lambda self, action: (np.zeros((2, 3)), 0.0, end, False, {}))
    assert worlds.step(all_of(CALM), KEYS, 0).terminal.all()
    worlds.close()


@pytest.mark.parametrize(("terminated", "truncated"), [(None, False), (False, "yes"), (np.zeros(2, bool), False)])
def test_an_end_of_an_episode_is_true_or_false(terminated, truncated, monkeypatch):
    import foreign_envs

    worlds = echo()
    worlds.reset(KEYS)
    monkeypatch.setattr(
        foreign_envs.Echo, "step", lambda self, action: (np.zeros((2, 3)), 0.0, terminated, truncated, {})
    )
    with pytest.raises(Broken, match=r"Echo-v0: ValueError: step gave .* as t\w+; valid: True or False"):
        worlds.step(all_of(CALM), KEYS, 0)
    worlds.close()


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("Discrete", ["actions in MultiDiscrete([2 3])", "valid: Box or Discrete"]),
        ("Words", ["observations that are Sequence(", "valid: spaces of numbers"]),
        ("Picture", ["observations that are pictures (8 × 9 × 3 bytes) beside others", "valid: a picture alone"]),
        ("Needy", ["Box9D is not installed", "pip install box9d"]),
        ("Faulty", ["cannot be built: RuntimeError: no licence"]),
        ("Quitter", ["cannot be built: SystemExit: 7"]),
        ("Bare", ["cannot be built: AttributeError", "observation_space"]),
        ("Still", ["actions without dimensions", "valid: at least one"]),
        ("Nowhere", ["observations that are None, which is no space", "valid: a space of gymnasium's"]),
        ("Count", ["observations that are 5, which is no space"]),
        ("Empty", ["observations that are Dict(), of which a part is empty"]),
        ("Hollow", ["of which a part is empty"]),
        ("Idle", ["actions in None", "valid: Box or Discrete"]),
    ],
)
def test_refusals(name, words):
    name = f"foreign_envs:{name}-v0"
    one_line(lambda: Foreign(name, 1, 1, horizon=6, workers=0), f"--env {name} ", *words)


@pytest.mark.parametrize("space", [None, 5])
def test_a_score_in_an_environment_without_a_space_is_refused(space):
    env = SimpleNamespace(observation_space=space, action_space=gymnasium.spaces.Box(-1, 1, (2,)))
    one_line(lambda: vgcrl.lgr(np.zeros_like, np.zeros_like, env, [[0.0]], max_steps=2), f"observations are in {space}")


class Growing(gymnasium.Env):
    """Every instance from the second or so on has more to see, or to do, than those before."""

    made = 0

    def __init__(self, grows="observations", after=1):
        Growing.made += 1
        more = Growing.made > after
        self.observation_space = gymnasium.spaces.Box(-1, 1, (3 + (more and grows == "observations"),))
        self.action_space = gymnasium.spaces.Discrete(2 + (more and grows == "actions"))

    def reset(self, *, seed=None, options=None):
        return np.zeros(self.observation_space.shape, np.float32), {}


@pytest.mark.parametrize("after", [1, 2, 3])
@pytest.mark.parametrize(("grows", "told"), [("observations", "an observation"), ("actions", "an action")])
def test_instances_that_are_not_alike_are_refused(grows, told, after, monkeypatch, tmp_path, capsys):
    """Also where all of those that train are, and only what was described first is not."""
    monkeypatch.setattr(Growing, "made", 0)
    words = ["train", "--env", "test_foreign:Growing", "--env-arg", f"grows={grows}", "--env-arg", f"after={after}"]
    assert main([*words, "--out", str(tmp_path / "run"), *flags(horizon=6)]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"vgcrl: test_foreign:Growing: {told} of one instance has ")
    assert said.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_a_worker_tells_of_instances_that_are_not_alike(monkeypatch):
    name, options = "test_foreign:Growing", ("after=0",)
    monkeypatch.setattr(Growing, "__init__", lambda self, after: vars(self).update(FEW))
    one_line(
        lambda: Foreign(name, 1, 1, horizon=6, workers=1, env_arg=options).reset(KEYS[:1]),
        f"{name}: an observation of one instance has 3 numbers, of another 4; valid: as many in all",
    )


FEW = {"observation_space": gymnasium.spaces.Box(-1, 1, (3,)), "action_space": gymnasium.spaces.Discrete(2)}


def test_an_observation_of_complex_numbers_is_not_halved(monkeypatch):
    import foreign_envs

    worlds = echo()
    monkeypatch.setattr(foreign_envs.Echo, "reset", lambda self, seed, options: (np.zeros((2, 3), complex), {}))
    with pytest.raises(Broken, match=r"Echo-v0: ValueError: the observation .* is not in its space"):
        worlds.reset(KEYS)
    worlds.close()


class Stop(BaseException):
    """No Exception."""


@pytest.mark.parametrize(
    "raised", [Stop("b"), GeneratorExit("g"), KeyboardInterrupt("k"), StopIteration("s")], ids=repr
)
def test_whatever_an_environment_raises_is_one_line(raised, monkeypatch, tmp_path, capsys):
    """What it does in a step is no Ctrl-C either."""
    import foreign_envs

    def fail(self, action):
        raise raised

    monkeypatch.setattr(foreign_envs.Lame, "step", fail)
    out = tmp_path / "run"
    assert main(["train", "--env", "foreign_envs:Lame-v0", "--out", str(out), *flags(horizon=6)]) == 2
    kind = type(raised).__name__
    assert capsys.readouterr().err.splitlines()[2].startswith(f"vgcrl: foreign_envs:Lame-v0: {kind}: {raised} at ")
    assert {path.name for path in out.iterdir()} == {".lock", "error.txt"}


@pytest.mark.parametrize("method", ["__init__", "reset", "close"])
def test_whatever_an_environment_raises_elsewhere_is_one_line(method, monkeypatch):
    import foreign_envs

    def fail(self, **_):
        raise Stop("b")

    monkeypatch.setattr(foreign_envs.Reach, method, fail)
    foreign = lambda: Foreign("foreign_envs:Reach-v0", 1, 1, horizon=6, workers=0).close()  # noqa: E731
    foreign() if method == "close" else one_line(foreign, "foreign_envs:Reach-v0 cannot be ", ": Stop: b at ")


def test_an_environment_that_goes_elsewhere_leaves_paths_where_they_were(monkeypatch, tmp_path):
    import foreign_envs

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(foreign_envs.Table, "__init__", lambda self: os.chdir("/"))
    Foreign("foreign_envs:Table-v0", 1, 1, horizon=6, workers=0).close()
    assert Path.cwd() == tmp_path


def test_a_fault_in_an_installed_package_is_told_with_its_place(tmp_path, monkeypatch):
    """The innermost line of the package, not of Gymnasium, which called it; the user's own where there is one."""
    site = str(tmp_path)
    monkeypatch.setattr(contract, "INSTALLED", (site,))
    monkeypatch.setattr(contract, "OTHERS", (site,))
    monkeypatch.setattr(contract, "MAKERS", (f"{site}/gymnasium/",))
    sources = {f"{site}/gymnasium/make.py": "\n\nrun(rest)", f"{site}/arms/mesh.py": "\nassert not rest, rest"}

    def run(files):
        exec(compile(sources[files[0]], files[0], "exec"), {"run": run, "rest": files[1:]})

    with pytest.raises(AssertionError) as found:
        run([f"{site}/gymnasium/make.py", f"{site}/arms/mesh.py", "end"])
    assert contract.place_of(found.value).startswith(f" at {__file__}:")
    monkeypatch.setattr(contract, "OTHERS", (site, __file__))
    assert contract.place_of(found.value) == f" at {site}/arms/mesh.py:2"
    assert contract.told(AssertionError()) == "AssertionError"


def test_a_range_that_is_a_point_is_no_range_for_goals():
    one_line(lambda: resolve(Options("gcrl", "foreign_envs:Flat-v0")), "--features: dimension 1", "no known range")


def test_a_time_step_that_cannot_be_told():
    worlds = Foreign("foreign_envs:Timeless-v0", 1, 1, horizon=6, workers=0)
    assert worlds.spec.seconds == 1.0
    worlds.close()


SMALL = {"steps": 32, "envs": 2, "horizon": 6, "seeds": 1}


def test_a_policy_speaks_the_shapes_of_its_environment(tmp_path, capfd):
    """And what the environment prints is not in the answer of a command."""
    import gymnasium

    name = "foreign_envs:Table-v0"
    out = untrained(tmp_path / "run", "diayn", env=name)
    ctypes.CDLL(None).fflush(None)
    capfd.readouterr()
    assert main(["evaluate", str(out), "--episodes", "4", "--json"]) == 0
    said = capfd.readouterr()
    assert "F" in json.loads(said.out)["mean"]
    assert "welcome\n" in said.err
    assert "welcome from C" in said.err
    policy, env = vgcrl.load(out), gymnasium.make(name)
    obs, _ = env.reset(seed=0)
    assert env.action_space.contains(policy.act(obs, goal_state=obs))
    np.testing.assert_array_equal(policy.act(obs.ravel(), z=0), policy.act(obs, z=0))
    asked = np.array([[0, 0, 0], [1, 1, 1]])

    def full(obs, z):
        return np.ones((1, 3), np.float32)

    assert vgcrl.lgr(full, policy.embed, env, [asked]) == 0
    assert vgcrl.lgr(full, policy.embed, env, asked.reshape(1, 6)) == 0, "flat, as in a file"
    assert vgcrl.lgr(full, policy.embed, env, -asked, dims=(4, 5)) == 8


def test_a_policy_for_a_world_of_one_number(tmp_path):
    """Its environment also fails to close."""
    name = "foreign_envs:Scalar-v0"
    run = vgcrl.train(env=name, out=tmp_path / "run", **TINY | SMALL)
    assert vgcrl.load(run.dir).act(np.float32(0.3), z=0).shape == ()


def test_no_time_limit():
    name = "foreign_envs:Endless-v0"
    assert gymnasium_engine.horizon(name) is None
    one_line(lambda: Foreign(name, 1, 1, horizon=None, workers=0), name, "no time limit", "--horizon N")
    Foreign(name, 1, 1, horizon=2, workers=0).close()


def test_a_time_limit_is_a_whole_number_of_steps_or_none():
    found = [gymnasium_engine.horizon(f"foreign_envs:{name}Limit-v0") for name in ("Numpy", "Float")]
    assert found == [6, 6]
    assert {type(x) for x in found} == {int}
    others = ("Half", "Zero", "None", "Inf", "Word")
    assert {gymnasium_engine.horizon(f"foreign_envs:{name}Limit-v0") for name in others} == {None}


def test_what_cannot_be_built_says_so_first(recwarn, monkeypatch):
    """An id of a version that is no longer there has no time limit either."""

    def gone(**options):
        raise ImportError("this version is no longer there")

    name = "Gone-v2"
    for version in (name, "Gone-v3"):  # of which gymnasium would warn that the older is out of date
        spec = gymnasium.envs.registration.EnvSpec(version, entry_point=gone)
        monkeypatch.setitem(gymnasium.registry, version, spec)
    assert gymnasium_engine.horizon(name) is None
    one_line(lambda: Foreign(name, 1, 1, horizon=None, workers=0), name, "cannot be built")
    assert not [w for w in recwarn if "out of date" in str(w.message)]


def test_names():
    assert {"Pendulum-v1", "Reacher-v5", "Reacher-v4"} <= set(gymnasium_engine.ids())
    assert (gymnasium_engine.horizon("Pendulum-v1"), gymnasium_engine.horizon(ECHO)) == (200, 6)
    assert find(ECHO).options["horizon"] == 6
    one_line(lambda: find("foreign_envs:Ehco-v0"), "foreign_envs:Ehco-v0", "did you mean Echo-v0")
    one_line(lambda: find("no_such_module:Echo-v0"), "no_such_module", "cannot be imported")
    one_line(lambda: find(":Echo-v0"), "cannot be imported")
    one_line(lambda: find("Pendulm-v1"), "did you mean Pendulum-v1")


def test_without_gymnasium(monkeypatch):
    real = builtins.__import__

    def absent(name, *rest):
        if name.split(".")[0] == "gymnasium":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return real(name, *rest)

    monkeypatch.delitem(sys.modules, "gymnasium", raising=False)
    monkeypatch.setattr(builtins, "__import__", absent)
    assert gymnasium_engine.ids() == []
    needs = f"--env {ECHO} needs gymnasium; valid: {install('mujoco')}"
    one_line(lambda: gymnasium_engine.horizon(ECHO), needs)
    one_line(lambda: echo(), needs)


@pytest.mark.parametrize(("name", "strength", "seconds"), [("Pendulum-v1", 2.0, 0.05), ("Reacher-v5", 1.0, 0.02)])
def test_against_gymnasium(name, strength, seconds):
    import gymnasium

    horizon, key = gymnasium_engine.horizon(name), KEYS[1]
    worlds = Foreign(name, 2, 3, horizon=horizon, workers=0)
    assert worlds.spec.seconds == seconds
    env, place = gymnasium.make(name), 2
    seed = int(generator(key, -1).integers(2**31, size=3)[place])
    obs, expected = worlds.reset(KEYS), env.reset(seed=seed)[0]
    for clock in range(horizon + 3):
        np.testing.assert_array_equal(obs[1, place], expected.astype(np.float32))
        action = np.random.default_rng(clock).uniform(-1, 1, (2, 3, worlds.spec.action_dim)).astype(np.float32)
        out = worlds.step(action, KEYS, clock)
        expected, _, _, truncated, _ = env.step(strength * action[1, place])
        np.testing.assert_array_equal(out.next_obs[1, place], expected.astype(np.float32))
        assert out.last[1, place] == truncated
        if truncated:
            expected, _ = env.reset(seed=int(generator(key, clock).integers(2**31, size=3)[place]))
        obs = out.obs
    worlds.close()


@pytest.mark.parametrize("terminate", [False, True])
@pytest.mark.parametrize("name", bodies.TASKS)
def test_bodies(name, terminate):
    import gymnasium

    task = bodies.TASKS[name]
    options = {"terminate": terminate} if task.height else {}
    worlds = gymnasium_engine.body(task, 1, 2, horizon=100, workers=0, **options)
    env = gymnasium.make(task.gymnasium, **task.options)
    assert worlds.spec == bodies.specification(task, env.unwrapped.model, 100, False)
    assert worlds.spec.obs_dim == env.observation_space.shape[0]
    assert worlds.reset(KEYS[:1]).shape == (1, 2, worlds.spec.obs_dim)
    random = np.random.default_rng(0)
    steps = [worlds.step(random.uniform(-1, 1, (1, 2, worlds.spec.action_dim)), KEYS[:1], i) for i in range(100)]
    assert any(out.terminal.any() for out in steps) == (terminate and task.height is not None)
    assert steps[-1].last.all() or terminate
    worlds.close()


def test_an_environment_that_fails_in_the_first_evaluation(tmp_path, capsys):
    out = tmp_path / "run"
    assert main(["train", "--env", "foreign_envs:Lame-v0", "--out", str(out), *flags(horizon=6)]) == 2
    said = capsys.readouterr().err.splitlines()
    assert said[0] == "foreign_envs:Lame-v0: engine gymnasium"
    assert said[1].startswith("foreign_envs:Lame-v0: actions without bounds are from −1 to 1")
    assert said[2].startswith("vgcrl: foreign_envs:Lame-v0: RuntimeError: no power at ")
    assert {path.name for path in out.iterdir()} == {".lock", "error.txt"}, "so that it may be tried again"


@pytest.mark.parametrize("where", ["real", "link"])
def test_a_folder_that_was_there_is_left_as_it_was(where, tmp_path, capsys):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert main(["train", "--env", "foreign_envs:Lame-v0", "--out", str(tmp_path / where), *flags(horizon=6)]) == 2
    assert "RuntimeError: no power" in capsys.readouterr().err.splitlines()[-1]
    assert {path.name for path in (tmp_path / "real").iterdir()} == {".lock", "error.txt"}
    assert (tmp_path / "link").is_symlink()


@pytest.mark.parametrize(("starts", "reported"), [(0, "of seed 0 at its start"), (1, "of seed 0 at step 24")])
def test_a_start_that_is_not_finite_is_told(starts, reported, tmp_path, capsys, monkeypatch):
    import foreign_envs

    monkeypatch.setattr(foreign_envs, "FIRST_STARTS", starts)
    assert main(["train", "--env", "foreign_envs:Lost-v0", "--out", str(tmp_path / "run"), *flags(horizon=6)]) == 2
    assert f"observation not finite in environment 0 {reported}" in capsys.readouterr().err.splitlines()[-1]
    assert (tmp_path / "run").exists() == bool(starts)


class Duck:
    """As an environment, but none of Gymnasium's; in `close` it ends the process."""

    observation_space, action_space = gymnasium.spaces.Box(-1, 1, (2,)), gymnasium.spaces.Discrete(10**9)

    def reset(self, **_):
        return np.zeros(2, np.float32), {}

    def close(self):
        sys.exit(3)


def test_a_class_that_is_no_gymnasium_env_has_no_limit():
    assert not gymnasium_engine.is_limited(Duck())


def test_too_many_actions_to_choose_from():
    name = "test_foreign:Duck"
    one_line(lambda: Foreign(name, 1, 1, horizon=6, workers=0), "1,000,000,000 actions", "valid: at most 100,000")


def test_an_environment_cannot_end_the_process_when_it_is_closed(monkeypatch):
    monkeypatch.setattr(Duck, "action_space", gymnasium.spaces.Discrete(2))
    worlds = Foreign("test_foreign:Duck", 1, 1, horizon=6, workers=0)
    assert worlds.spec.action_dim == 2
    worlds.close()


@pytest.mark.parametrize(("metadata", "seconds"), [({"render_fps": 20}, 0.05), ({"render_fps": 0}, 1.0), ({}, 1.0)])
def test_a_step_takes_as_long_as_the_environment_draws(metadata, seconds):
    env = gymnasium.make("MountainCarContinuous-v0").unwrapped
    env.metadata = metadata
    assert gymnasium_engine.describe(env, 5).seconds == seconds


def test_what_a_worker_prints_is_not_in_the_answer_of_a_command(tmp_path, capfd):
    out = untrained(tmp_path / "run", "diayn", env="foreign_envs:Table-v0", workers=1)
    capfd.readouterr()
    assert main(["evaluate", str(out), "--episodes", "4", "--json"]) == 0
    said = capfd.readouterr()
    assert "F" in json.loads(said.out)["mean"]
    assert "welcome\n" in said.err


@pytest.mark.parametrize("action", [4, np.array([4]), 4.0])
def test_lgr_gives_an_environment_actions_as_it_has_them(action):
    class Dial(Whole):
        action_space = spaces.Discrete(2, start=3)

        def step(self, action):
            assert self.action_space.contains(action)
            return np.full((2, 2), action, np.uint8), 0.0, False, False, {}

    score = partial(vgcrl.lgr, embed=lambda s: s, env=Dial(), targets=np.full((1, 2, 2), 4), max_steps=1)
    assert score(lambda obs, z: action) == 0
    for wrong in (2, 5, 3.5, np.nan, [3, 4]):
        with pytest.raises(vgcrl.UsageError, match="valid: a whole number from 3 to 4"):
            score(lambda obs, z, wrong=wrong: wrong)


@pytest.mark.parametrize(
    "space", [spaces.MultiDiscrete([3, 3]), spaces.MultiBinary(2), spaces.Box(0, 2, (2,), np.int32)]
)
def test_lgr_gives_an_environment_whole_numbers_where_it_has_several(space):
    class Dials(Whole):
        action_space = space

        def step(self, action):
            assert self.action_space.contains(action)
            return np.full((2, 2), action[1], np.uint8), 0.0, False, False, {}

    score = partial(vgcrl.lgr, embed=lambda s: s, env=Dials(), targets=np.ones((1, 2, 2)), max_steps=1)
    assert score(lambda obs, z: [0.0, 1.0]) == 0
    for wrong in ([0.5, 1], [0, 7], [0, -1], [np.nan, 0], 1, [0, 0, 0]):
        with pytest.raises(vgcrl.UsageError, match=r"valid: whole numbers in (Multi|Box)"):
            score(lambda obs, z, wrong=wrong: wrong)


def test_lgr_gives_a_single_number_the_shape_of_the_action():
    class Line(Whole):
        action_space = spaces.Box(-1, 1, (1,))

        def step(self, action):
            assert action.shape == (1,)
            return np.zeros((2, 2), np.uint8), 0.0, False, False, {}

    assert vgcrl.lgr(lambda obs, z: 0.5, lambda s: s, Line(), np.zeros((1, 2, 2)), max_steps=1) == 0
