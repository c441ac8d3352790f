"""Training inside a loop of one's own: no folder, no signal handler, the numbers of a run."""

import signal

import jax
import numpy as np
import pytest

import vgcrl
from tiny import TINY
from vgcrl.measure import target_states
from vgcrl.training import trainer
from vgcrl.training.options import Options

SMALL = TINY | {"steps": 320, "evaluate_every": 320, "seeds": 2}


@pytest.fixture(scope="module")
def program():
    return vgcrl.compile("diayn", **SMALL)


def test_the_same_numbers_as_a_run_in_a_folder(program, tmp_path, monkeypatch):
    """However the iterations are divided among calls; and nothing is written, and no signal handled."""
    run = trainer.start(Options("diayn", **SMALL), tmp_path / "run", quiet=True)
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path / "empty")
    handlers = [signal.getsignal(s) for s in (signal.SIGINT, signal.SIGTERM)]
    state = program.init()
    total = SMALL["steps"] // program.steps_per_iteration
    state = program.advance(program.advance(state, total - 3), 3)
    assert state.iteration == total
    assert program.evaluate(state) == {k: v for k, v in run.last.items() if k in ("seeds", "mean", "ci95")}
    assert [signal.getsignal(s) for s in (signal.SIGINT, signal.SIGTERM)] == handlers
    assert not any((tmp_path / "empty").iterdir())


def test_a_policy_acts_and_stays_as_it_is_when_training_goes_on(program):
    state = program.advance(program.init(), 30)
    policy, obs = program.policy(state, seed=1), np.zeros(4, np.float32)
    before = policy.act(obs, z=3)
    state = program.advance(state, 60)
    np.testing.assert_array_equal(policy.act(obs, z=3), before)
    assert (program.policy(state, seed=1).act(obs, z=3) != before).any()


def test_a_state_that_was_consumed_is_told_as_such(program):
    state = program.init()
    program.advance(state)
    for use in (program.advance, program.evaluate, program.policy):
        with pytest.raises(ValueError, match="the state was consumed by an earlier advance"):
            use(state)


def test_bad_input_is_refused(program):
    state = program.init()
    most = (2**31 - 1) // program.steps_per_iteration
    for wrong in (0, -1, 2.0, True, "3", None, np.nan):
        with pytest.raises(ValueError, match=f"n {wrong!r} is not valid; valid: .*, here from 1 to {most}$"):
            program.advance(state, wrong)
    with pytest.raises(ValueError, match=r"here from 1 to 1$"):
        program.advance(state._replace(iteration=most - 1), 2)
    for wrong in (-5, 1.5, True):
        with pytest.raises(ValueError, match="not one of this program"):
            program.advance(state._replace(iteration=wrong))
    with pytest.raises(ValueError, match=r"targets holds \(1, 3\) values; valid: rows of 4 finite numbers"):
        program.evaluate(state, [1.0, 2.0, 3.0])
    with pytest.raises(vgcrl.UsageError, match="unknown option 'stepz'"):
        vgcrl.compile("diayn", stepz=3)


def test_a_state_of_another_program_is_refused(program):
    """Before JAX takes it over, or reads numbers of another meaning."""
    other = vgcrl.compile("diayn", **SMALL | {"seeds": 1}).init()
    for wrong in (other, other.runs, None):
        for use in (program.advance, program.evaluate, program.policy):
            with pytest.raises(ValueError, match=r"the state is not one of this program; valid: what its init"):
                use(wrong)


@pytest.mark.parametrize("wrong", [np.nan, -np.inf, 1e39])
def test_targets_that_are_not_finite_are_refused_without_a_warning(program, wrong, recwarn):
    with pytest.raises(ValueError, match="targets holds a number that is not finite"):
        program.evaluate(program.init(), [[0.0, 0.0, 0.0, wrong]])
    assert not [w for w in recwarn if issubclass(w.category, RuntimeWarning)]


def test_numbers_of_numpy_are_whole_numbers(program):
    state = program.advance(program.init(), np.int64(2))
    assert (state.iteration, type(state.iteration)) == (2, int)


def test_environments_on_the_host_go_on_from_the_newest_state_only():
    pytest.importorskip("mujoco")
    program = vgcrl.compile("diayn", **SMALL | {"env": "HalfCheetah", "horizon": 20, "replay": 4000, "seeds": 1})
    first = program.init()
    copied = first._replace(runs=jax.tree.map(jax.numpy.copy, first.runs))
    second = program.advance(first, 2)
    with pytest.raises(ValueError, match="have gone on"):
        program.advance(copied)
    assert program.advance(second, 2).iteration == 4


def test_a_robot_is_sent_to_the_targets_of_its_runs(monkeypatch):
    program = vgcrl.compile("diayn", env="HalfCheetah", **{**SMALL, "replay": 20_000, "evaluate_episodes": 7})
    asked = []

    def evaluate(runs, targets, episodes):
        asked.append(targets)
        raise InterruptedError

    monkeypatch.setattr(program._program, "evaluate", evaluate)
    with pytest.raises(InterruptedError):
        program.evaluate(program.init())
    assert asked[0].shape == (7, 17)
    np.testing.assert_array_equal(asked[0], target_states.default("HalfCheetah", 17, 7))
