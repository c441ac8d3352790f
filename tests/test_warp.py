"""MuJoCo Warp where there is none: refused in one line, never chosen; and what it trained is examined by MuJoCo."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tiny import TINY
from vgcrl import cli, envs
from vgcrl.envs import bodies, warp_engine
from vgcrl.envs.contract import Env, Vectorised
from vgcrl.envs.warp_engine import ROOM
from vgcrl.training import checkpoint, loop, policy_file, run_folder, trainer
from vgcrl.training.host_program import compile_config
from vgcrl.training.options import Options
from vgcrl.training.program import policy
from vgcrl.training.resolve import resolve


def test_without_a_gpu_it_is_one_line(capsys, tmp_path):
    assert cli.main(["train", "diayn", "--env", "Ant", "--engine", "warp", "--out", str(tmp_path / "run")]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "--engine warp needs" in error
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("backend", "missing", "worlds", "chosen"),
    [
        ("gpu", None, 4096, "warp"),
        ("gpu", None, 16, "mujoco"),
        ("gpu", "warp-lang", 4096, "mujoco"),
        ("cpu", None, 4096, "mujoco"),
    ],
)
def test_auto_chooses_it_where_it_is_faster(backend, missing, worlds, chosen, monkeypatch):
    monkeypatch.setattr(warp_engine, "missing", lambda: missing)
    monkeypatch.setattr(jax, "default_backend", lambda: backend)
    monkeypatch.setattr(envs, "cores", lambda: 16)
    assert envs.choose(envs.ENVS["Ant"], worlds) == chosen


def test_every_body_has_room():
    assert {task.gymnasium for task in bodies.TASKS.values()} == set(ROOM)


@pytest.mark.parametrize("backend", ["cpu", "gpu"])
def test_engines_on_a_gpu_are_not_exact(backend, monkeypatch):
    monkeypatch.setattr(jax, "default_backend", lambda: backend)
    exact = {name: engine.exact for name, engine in envs.ENVS["Ant"].engines.items()}
    assert exact == {"mujoco": True, "mjx": backend == "cpu", "warp": backend == "cpu", "gymnasium": True}


def test_what_it_trained_is_examined_by_mujoco(tmp_path):
    config = resolve(Options("diayn", "HalfCheetah", engine="mujoco"))
    for physics in (None, "exact", "fast"):  # None: a run from before there was a choice
        run_folder.write_config(tmp_path, dataclasses.replace(config, engine="warp", physics=physics))
        assert run_folder.checked_config(tmp_path, examine=True) == config
    with pytest.raises(ValueError, match="--engine warp needs"):
        run_folder.checked_config(tmp_path)


def test_evaluations_on_the_way_are_mujoco_s_too(monkeypatch):
    """MJX in Warp's place: what evaluates and records is the program of the engine that examines."""
    config = resolve(Options("diayn", "HalfCheetah", engine="mjx", seeds=2, envs=2, hidden=(8,), horizon=12))
    engines = envs.ENVS["HalfCheetah"].engines
    monkeypatch.setitem(engines, "mjx", engines["mjx"]._replace(examined_by="mujoco"))
    program, exact = compile_config(config), compile_config(config.examiner)
    assert (program.config.engine, exact.config.engine) == ("mjx", "mujoco")
    runs = exact.init()
    here, there = (jax.device_get(p.evaluate(runs, episodes=3)) for p in (program, exact))
    assert set(here) == set(there)
    assert all(map(np.array_equal, jax.tree.leaves(here), jax.tree.leaves(there)))
    z = jnp.arange(3)
    np.testing.assert_array_equal(program.record_episodes(runs, z), exact.record_episodes(runs, z))


def test_its_policy_is_read_by_another_engine_without_a_word(tmp_path):
    config = resolve(Options("diayn", "HalfCheetah", engine="mujoco", seeds=1, envs=2, hidden=(8,), replay=8_000))
    runs = compile_config(config).init()
    trained = dataclasses.replace(config, engine="warp", physics="fast")
    run_folder.write_config(tmp_path, trained)
    policy_file.save(tmp_path, 640, policy(trained, runs), {"iteration": 5, "wall": 1.0}, config=trained.to_json())
    said = []
    program, found, counters = trainer.restore(tmp_path, said.append)
    assert (program.config.engine, counters["step"], said) == ("mujoco", 640, [])
    assert all(map(np.array_equal, *map(jax.tree.leaves, (found.learner.q, runs.learner.q))))
    edited = dataclasses.replace(trained, physics="exact")
    run_folder.write_config(tmp_path, edited)
    with pytest.raises(ValueError, match=r"config.json has physics 'exact'"):
        trainer.restore(tmp_path, said.append)


def test_lost_contacts_are_counted_over_episodes_and_told():
    spec = resolve(Options("diayn", "pointmass", **{k: TINY[k] for k in ("envs", "steps")})).specification
    env = Env(
        spec._replace(horizon=3),
        reset=lambda key: (jnp.zeros((), jnp.int32), jnp.zeros(spec.obs_dim)),
        step=lambda sim, action, key: (sim + 1, jnp.zeros(spec.obs_dim), jnp.zeros((), bool)),
        overflow=lambda sim: sim == 2,
    )
    many = Vectorised(env, 2)
    state, _ = many.reset(jax.random.key(0))
    for _ in range(7):
        state, _ = many.step(state, jnp.zeros((2, spec.action_dim)), jax.random.key(1))
    assert state.overflows.tolist() == [2, 2]  # in the second step of each of two episodes

    class Program:
        config = dataclasses.replace(resolve(Options()), engine="warp")

        def overflows(self, runs):
            return 7

    said = []
    assert loop._note_overflow(Program(), None, 3, said.append) == 7
    assert said == ["engine warp had no room for all contacts in 4 environment steps: some were left out"]
    assert loop._note_overflow(Program(), None, 7, said.append) == 7
    assert len(said) == 1


def test_what_stopped_at_once_is_examined_by_its_policy(tmp_path, monkeypatch):
    """MJX in Warp's place: its checkpoint of step 0 does not fit the program that examines; its policy does."""
    engines = envs.ENVS["HalfCheetah"].engines
    monkeypatch.setitem(engines, "mjx", engines["mjx"]._replace(examined_by="mujoco"))
    config = resolve(Options("diayn", "HalfCheetah", engine="mjx", seeds=2, envs=2, hidden=(8,), horizon=12))
    run_folder.write_config(tmp_path, config)
    exact = compile_config(config.examiner)
    counters = {"step": 0, "iteration": 0, "wall": 0.0}
    policy_file.save(tmp_path, 0, policy(config, exact.init()), counters, config=config.to_json())
    checkpoint.save(tmp_path, 0, {"other": np.zeros(3)}, counters, {}, config=config.to_json())
    program, _, found = trainer.restore(tmp_path, print)
    assert (program.config.engine, found["step"]) == ("mujoco", 0)
