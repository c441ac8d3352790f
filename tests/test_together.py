"""Programs that are simulated together learn as each does alone."""

import dataclasses
import importlib.util
import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import jax
import numpy as np
import pytest

from tiny import copies
from vgcrl.errors import UsageError
from vgcrl.training import run_folder
from vgcrl.training.native_program import NativeProgram
from vgcrl.training.options import Options
from vgcrl.training.program import policy
from vgcrl.training.resolve import resolve

TOOLS = Path(__file__).parents[1] / "tools"
SIDE_BY_SIDE = TOOLS / "side_by_side.py"


def tool(name: str):
    spec = importlib.util.spec_from_file_location(name, TOOLS / f"{name}.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


together, join_seeds = tool("train_together"), tool("join_seeds")
CELL = TOOLS.parent / "results" / "discrete" / "cells" / "Humanoid-G200.json"  # five seeds

SMALL = {
    "steps": 160,
    "seeds": 2,
    "envs": 4,
    "batch": 8,
    "hidden": (8, 8),
    "random_steps": 16,
    "updates_per_step": 0.25,
    "evaluate_every": 80,
    "evaluate_episodes": 3,
    "horizon": 7,
}


def config(method: str, goal_dim: int, **more):
    """Without P-HER and with it. Tests use the same numbers of categories, so that little is compiled."""
    given = {"goal_dim": goal_dim, "relabel": "p-her", "relabel_fraction": (0.0, 0.5), **SMALL, **more}
    return resolve(Options(method, "pointmass", **given))


def leaves(tree):
    return [np.asarray(x) for x in jax.tree.leaves(tree) if not together.is_key(x)]


def test_programs_learn_in_one_call_where_categories_are_not_far_apart():
    other = config("dads", 5, relabel="none", relabel_fraction=(0.0,))
    configs = [config("diayn", 40), config("diayn", 5), config("vgcrl", 2), config("diayn", 3), other]
    groups = together.in_one_call([NativeProgram(each) for each in configs])
    found = [[(each.config.method, each.config.goal_dim) for each in group] for group in groups]
    assert found == [[("vgcrl", 2)], [("dads", 5)], [("diayn", 3), ("diayn", 5)], [("diayn", 40)]]


@pytest.fixture(scope="module")
def padded():
    """Two numbers of categories in one call, and what they are after 30 iterations."""
    both = together.Together([config("diayn", 3, seed=4), config("diayn", 5)])
    return both, both.advance(both.init(), 0, 30)


def check_learned_as_alone(all_of_them, states, one):
    """P-HER apart, whose goals are drawn from all categories: the seeds of the first setting."""
    alone = NativeProgram(one)
    found, first = all_of_them.policies(states)[one], policy(one, alone.init())
    expected = policy(one, alone.advance(alone.init(), 0, 30))
    pairs = [x for x in zip(leaves(found), leaves(expected), leaves(first), strict=True) if x[0].size]
    assert any(np.abs(b - c).max() > 1e-3 for _, b, c in pairs)  # it has learned
    for a, b, _ in pairs:
        np.testing.assert_allclose(a[: one.seeds], b[: one.seeds], rtol=1e-4, atol=1e-5)


def test_each_program_learns_as_it_does_alone(padded):
    both, states = padded
    check_learned_as_alone(both, states, both.learners[0].configs[0])


@pytest.mark.slow
def test_programs_that_learn_in_calls_of_their_own_do_so_as_alone():
    """Continuous goals beside categories."""
    configs = [config("diayn", 5), config("vgcrl", 2)]
    both = together.Together(configs)
    states = both.advance(both.init(), 0, 30)
    for one in configs:
        check_learned_as_alone(both, states, one)


def test_categories_that_a_program_does_not_have_stay_unused(padded):
    both, (runs,) = padded
    few = np.asarray(both.learners[0].counts) == 3
    assert few.tolist() == [True] * 4 + [False] * 4
    assert set(np.unique(runs.scene.z[few])) <= {0, 1, 2}
    assert runs.replay.z[few].max() <= 2
    last = runs.learner.q.q.logits.layers[-1]
    assert (last.bias[few, 3:] == together.NEVER).all()
    assert not last.weight[few, 3:].any()
    assert (np.abs(last.bias[~few]) < 1).all()


def test_replay_is_written_in_place(padded):
    both, (runs,) = padded
    assert copies(both.advance.lower(jax.eval_shape(both.init), 0, 1).compile(), runs.replay.obs) == 0


def test_an_episode_that_ends_early_begins_again_alone():
    one = together.Together([config("diayn", 3)])
    env = one.envs.env
    falls = env._replace(step=lambda sim, action, key: (*env.step(sim, action, key)[:2], jax.random.bernoulli(key)))
    one.envs = one.envs._replace(env=falls)
    one.config = dataclasses.replace(one.config, terminate=True)
    keys = jax.random.split(jax.random.key(0), 3)
    state, _ = jax.vmap(one.envs.reset)(keys)
    state, seen = one.move(state, np.ones((3, 4, 2), np.float32), keys)
    assert 0 < seen.terminal.sum() < 12
    np.testing.assert_array_equal(seen.last, seen.terminal)
    np.testing.assert_array_equal(state.time, np.where(seen.terminal, 0, 1))
    np.testing.assert_array_equal((seen.obs == seen.next_obs).all(axis=-1), ~seen.terminal)


@pytest.mark.parametrize(
    ("flag", "more"),
    [
        ("--updates-per-step", {"updates_per_step": 0.5}),
        ("--features", {"features": "2,3"}),
        ("--discount", {"discount": 0.9}),
    ],
)
def test_programs_that_differ_in_more_are_refused(flag, more):
    with pytest.raises(UsageError, match=f"these programs differ in {flag}; valid: in --method, "):
        together.Together([config("diayn", 3), config("diayn", 5, **more)])


@pytest.mark.slow
def test_the_shortest_training_is_saved(tmp_path):
    """One iteration."""
    together.train({config("diayn", k, steps=4): tmp_path / str(k) for k in (3, 5)}, lambda line: None)
    assert all((tmp_path / k / "looks" / "4" / "policy.safetensors").exists() for k in ("3", "5"))


@pytest.mark.slow
def test_what_is_stopped_is_saved_as_runs_of_so_many_steps(tmp_path):
    """Asked in the first iteration, of four steps, it stops at its end."""
    folders = {config("diayn", k): tmp_path / str(k) for k in (3, 5)}
    said = []

    def say(line):
        said.append(line)
        if "compiled" in line:
            signal.raise_signal(signal.SIGTERM)

    together.train(folders, say)
    assert said[-1] == "stopped"
    together.wait_for_policies(tmp_path, 0, (), said.append)
    for folder in folders.values():
        (line,) = (json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines())
        assert run_folder.is_finished(folder)
        assert run_folder.read_config(folder).steps == line["step"] == 4


def test_what_was_trained_together_is_a_finished_run(tmp_path):
    """Its policy is examined, and read as that of a run trained alone."""
    folders = {config("diayn", 3): tmp_path / "three", config("diayn", 5): tmp_path / "five"}
    together.train(folders, lambda line: None)
    said = []
    together.wait_for_policies(tmp_path, 0, (), said.append)
    assert len(said) == 6
    assert together.examine(tmp_path, {}, said.append) == 0
    with pytest.raises(UsageError, match="another run"):
        together.train(folders, lambda line: None)
    for one, folder in folders.items():
        lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
        assert [line["step"] for line in lines] == [4, 80, 160]
        assert run_folder.is_finished(folder)
        restored, runs, _ = together.trainer.restore(folder, print)
        assert restored.config.goal_dim == one.goal_dim
    again = together.summarise(restored, jax.device_get(restored.evaluate(runs, None)))
    assert again["mean"]["F"] == pytest.approx(lines[-1]["mean"]["F"], abs=1e-4)


@pytest.mark.parametrize(("name", "value"), [("bias", together.NEVER), ("left", 0.0)])
def test_only_biases_of_q_make_categories_impossible(name, value):
    """The vector of spectral normalisation is as wide as the last layer too, and no logit."""
    learner = SimpleNamespace(missing=lambda size, config: size)
    x, wide = jax.numpy.ones((2, 3)), jax.numpy.ones((2, 5))
    found = together.Learner.widen(learner, None, f".learner.q.q.net.layers[2].{name}", x, wide)
    assert found.tolist() == [[1, 1, 1, value, value]] * 2


STUB = """# Stands in for train_together.py: COMMAND, an experiment, and what a group is told to do
import os, signal, sys, time
command, experiment, what = sys.argv[1:4]
if command == "examine":
    print("examines", experiment)
elif what == "fails":
    sys.exit("no such program")
elif what == "apart" and os.getsid(0) != os.getsid(os.getppid()):
    print("in a session of its own")
elif what == "stopped":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(print("saved")))
    os.kill(os.getppid(), signal.SIGTERM)
    time.sleep(50)
"""


@pytest.mark.parametrize(("groups", "code", "told"), [(("a ends", "b ends"), 0, ""), (("a ends", "a fails"), 1, "2")])
def test_groups_side_by_side(groups, code, told, tmp_path):
    done = side_by_side(tmp_path, *groups)
    assert done.returncode == code, done.stderr
    assert done.stderr == (f"{told}: failed\nno such program\n" if told else "")
    for experiment in {group.split()[0] for group in groups}:
        assert f"examines {experiment}" in (tmp_path / f"{experiment}.log").read_text()


def test_groups_that_are_stopped_save_what_they_have(tmp_path):
    assert side_by_side(tmp_path, "a stopped").returncode == 0
    assert (tmp_path / "1.log").read_text() == "saved\n"


def test_a_terminal_interrupts_the_script_alone(tmp_path):
    """It stops the others itself; two signals would end them unsaved."""
    assert side_by_side(tmp_path, "a apart").returncode == 0
    assert (tmp_path / "1.log").read_text() == "in a session of its own\n"


@pytest.mark.parametrize("words", [(), ("out",), ("out", "discrete"), ("out", "--", "--seeds", "5")])
def test_side_by_side_without_groups_tells_how(words, tmp_path):
    done = subprocess.run([sys.executable, SIDE_BY_SIDE, *words], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 2
    assert "python tools/side_by_side.py OUT" in done.stderr
    assert not any(tmp_path.iterdir())


def side_by_side(out, *groups):
    script = Path(shutil.copy(SIDE_BY_SIDE, out))
    script.with_name("train_together.py").write_text(STUB)
    words = [sys.executable, script, out, *groups, "--", "--steps", "10"]
    return subprocess.run(words, capture_output=True, text=True, timeout=60)


def test_seeds_of_a_program_are_asked_for_by_the_first_and_the_last():
    assert together.name_and_seeds("Ant-G5-gmm") == ("Ant-G5-gmm", {})
    assert together.name_and_seeds("Ant-G5-gmm:3-4") == ("Ant-G5-gmm", {"seed": 3, "seeds": 2})


def seeds_of(cell, first: int, count: int):
    """What would have been measured with these of its seeds."""
    some = lambda table: [row[first : first + count] for row in table]  # noqa: E731
    curves = {k: v if k == "step" else list(map(some, v)) for k, v in cell["curves"].items()}
    return cell | {
        "config": cell["config"] | {"seed": first, "seeds": count},
        "seeds": cell["seeds"][first : first + count],
        "runs": len(cell["settings"]) * count,
        "final": {k: some(v) for k, v in cell["final"].items()},
        "curves": curves,
        "wall_seconds": cell["wall_seconds"] / 2,
    }


@pytest.fixture
def parts(tmp_path):
    """A file and its filmstrips as of three and of two seeds."""
    cell, paths = json.loads(CELL.read_text()), []
    for folder, first, count in (("a", 0, 3), ("b", 3, 2)):
        (tmp_path / folder).mkdir()
        paths.append(tmp_path / folder / CELL.name)
        paths[-1].write_text(json.dumps(seeds_of(cell, first, count)))
        for strip in ("best", "worst"):
            paths[-1].with_suffix(f".{strip}.png").write_text(folder)
    return cell, paths


def test_seeds_measured_later_are_joined_as_if_measured_at_once(parts):
    cell, paths = parts
    join_seeds.main(paths)
    found = json.loads(paths[0].read_text())
    named = ("remark", "minutes_per_row")
    assert {k: v for k, v in found.items() if k not in named} == {k: v for k, v in cell.items() if k not in named}
    for strip, (_, seed) in cell["strips"].items():
        assert paths[0].with_suffix(f".{strip}.png").read_text() == ("a" if seed < 3 else "b")


def test_curves_that_are_joined_have_the_steps_of_both(parts):
    cell, paths = parts
    second = json.loads(paths[1].read_text())
    second["curves"] = {k: v[1:] for k, v in second["curves"].items()}
    found = join_seeds.joined(json.loads(paths[0].read_text()), second)
    assert found["curves"] == {k: v[1:] for k, v in cell["curves"].items()}


def test_files_that_differ_in_more_than_seeds_are_not_joined(parts):
    _, paths = parts
    first, second = (json.loads(path.read_text()) for path in paths)
    with pytest.raises(SystemExit, match="do not follow"):
        join_seeds.joined(second, first)
    with pytest.raises(SystemExit, match=r"differ in config: discount, steps$"):
        join_seeds.joined(first, second | {"steps": 5, "config": second["config"] | {"discount": 0.5}})


@pytest.mark.parametrize(
    ("programs", "said"), [("Ant-G5-gmm:0-2,Ant-G5-gmm:3-4", "twice"), ("Ant-G5", "no program Ant-G5 in continuous")]
)
def test_programs_that_cannot_be_trained_are_refused_before_anything_is_written(
    programs, said, monkeypatch, tmp_path, capsys
):
    words = ["train_together", "train", "continuous", programs, "--out", str(tmp_path / "out")]
    monkeypatch.setattr(sys, "argv", words)
    with pytest.raises(SystemExit, match="2"):
        together.main()
    assert said in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
