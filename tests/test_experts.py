"""Velocity experts and the target states they leave: files, choice of states, the command, what ships."""

import json

import numpy as np
import pytest

from tiny import flags
from vgcrl.cli import main
from vgcrl.envs.bodies import TASKS, turn
from vgcrl.errors import UsageError
from vgcrl.measure import target_states
from vgcrl.objective.goals import Box
from vgcrl.training.options import Options
from vgcrl.training.resolve import resolve
from vgcrl.use import experts

pytestmark = pytest.mark.usefixtures("unrendered")


def test_the_closest_seed_is_the_expert():
    """Two seeds, three experts; the second half of an episode counts."""
    asked = np.array([[-1.0], [0.0], [2.0]])
    path = np.zeros((2, 41, 3, 2))
    path[0, 20:, :, 1], path[1, 20:, :, 1] = [-0.9, 0.5, 1.0], [-0.5, 0.1, 1.9]
    path[..., 0] = np.arange(41)[None, :, None]
    spec = resolve(Options()).specification._replace(velocity=(1,))
    states, _, achieved, steps, fell, facts = experts.choose(path, asked, spec, 7, {"env": "x"})
    assert (steps == 7).all()
    assert not fell.any()
    assert facts == {"env": "x"}
    np.testing.assert_allclose(achieved[:, 0], [-0.9, 0.1, 1.9])
    assert states.shape == (3 * experts.STATES, 2)
    np.testing.assert_allclose(states[:, 1], np.repeat([-0.9, 0.1, 1.9], experts.STATES))
    assert states[:, 0].min() >= 20
    assert all(len(set(group)) == experts.STATES for group in states[:, 0].reshape(3, -1)), "the same state twice"


def test_the_closest_episode_is_the_expert_whatever_it_was_asked_for():
    """Four episodes for two targets; the one that falls is closest, and not taken while another stands."""
    targets = np.array([[1.0], [-1.0]])
    path = np.zeros((1, 41, 4, 2))
    path[..., 1] = [0.2, 1.1, -0.7, -1.0]
    path[..., 0] = [0.5, 0.5, 0.5, 3.0]
    spec = resolve(Options()).specification._replace(velocity=(1,), height=(0.0, 1.0))
    found = experts.choose(path, targets, spec, 7, {})
    np.testing.assert_allclose(found.achieved[:, 0], [1.1, -0.7])
    np.testing.assert_allclose(found.states[:, 1], np.repeat([1.1, -0.7], experts.STATES))
    assert not found.fell.any()


def test_where_places_are_observed_a_fall_is_still_read_off_the_height():
    """x, then the height: the episode that goes far has not fallen."""
    path = np.zeros((1, 41, 2, 3))
    path[..., 0], path[..., 1], path[..., 2] = [30.0, 0.5], [0.5, 3.0], [1.0, 1.0]
    spec = resolve(Options()).specification._replace(place=(0,), velocity=(2,), height=(0.0, 1.0))
    found = experts.choose(path, np.array([[1.0]]), spec, 7, {})
    assert not found.fell.any()
    np.testing.assert_allclose(found.states[:, 0], 30.0)


def test_an_episode_may_be_turned_to_its_target():
    """Of two speeds each target gets the closer, going its way; to stand still nothing is turned."""
    spec, task = resolve(Options(env="Ant")).specification, TASKS["Ant"]
    path = np.zeros((1, 41, 2, spec.obs_dim))
    path[..., 0], path[..., 1], path[..., 13] = 0.5, 1.0, [0.1, 1.9]
    targets = np.array([[0.0, 0.0], [0.0, 2.0], [-1.3, 1.3], [0.2, 0.0]])
    found = experts.choose(path, targets, spec, 7, {}, lambda obs, angle: turn(task, obs, angle, False))
    np.testing.assert_allclose(found.achieved, [[0.1, 0], [0, 1.9], [-1.9 / 2**0.5, 1.9 / 2**0.5], [0.1, 0]], atol=1e-9)
    states = found.states.reshape(4, experts.STATES, -1)
    np.testing.assert_allclose(states[..., 13:15], np.repeat(found.achieved[:, None], experts.STATES, 1), atol=1e-9)
    np.testing.assert_allclose(states[1, :, 1:5], np.repeat([[0.5**0.5, 0, 0, 0.5**0.5]], experts.STATES, 0), atol=1e-9)


def test_only_recordings_are_turned_and_only_what_moves_on_a_plane(tmp_path, capsys):
    assert main(["experts", "--env", "Ant", "--turn", "yes", "--out", str(tmp_path / "a.safetensors")]) == 2
    assert "--turn is of recordings; valid: with --policy" in capsys.readouterr().err
    flat = ["experts", "--env", "HalfCheetah", "--policy", "halfcheetah-velocity", "--turn", "yes"]
    assert main([*flat, "--out", str(tmp_path / "a.safetensors")]) == 2
    assert "HalfCheetah does not turn; valid: Ant, Humanoid" in capsys.readouterr().err


def test_a_target_keeps_the_recording_that_came_closest():
    asked = np.array([[1.0, 0.0], [2.0, 2.0], [0.0, 0.0]])
    early = np.array([[0.9, 0.0], [0.0, 0.0], [0.0, 0.1]])
    late = np.array([[0.5, 0.0], [1.9, 2.0], [0.1, 0.0]])
    states, up = np.repeat(np.arange(3.0), 2)[:, None] * np.ones(4), np.zeros(3, bool)
    old = target_states.Experts(states, asked, early, np.full(3, 10), up, {"steps": 10})
    new = target_states.Experts(states + 10, asked, late, np.full(3, 20), up, {"steps": 20})
    best = experts.merged(old, new, experts.closer(old, new))
    np.testing.assert_array_equal(best.achieved, [early[0], late[1], early[2]])
    np.testing.assert_array_equal(best.steps, [10, 20, 10])
    np.testing.assert_array_equal(best.states[:, 0], [0, 0, 11, 11, 2, 2])
    assert best.facts == {"steps": 20}
    np.testing.assert_array_equal(best.error, np.minimum(old.error, new.error))
    assert experts.closer(old._replace(fell=~up), new).all(), "on its feet before closer"
    assert not experts.closer(old, new._replace(fell=~up)).any()
    assert old._replace(fell=~up).missed.all()


def test_a_miss_is_told_and_files_come_back(tmp_path):
    asked, achieved = np.array([[1.0, 0.0], [2.0, 2.0]]), np.array([[1.1, 0.1], [2.0, 1.7]])
    written = target_states.Experts(
        np.ones((4, 3)), asked, achieved, np.array([10, 20]), np.zeros(2, bool), {"env": "x", "seeds": 2}
    )
    target_states.write(tmp_path / "a" / "x.safetensors", written)
    back = target_states.read(tmp_path / "a" / "x.safetensors")
    assert back.missed.tolist() == [False, True]
    assert back.facts == written.facts
    np.testing.assert_allclose(back.achieved, achieved, rtol=1e-6)
    np.testing.assert_array_equal(target_states.from_file(tmp_path / "a" / "x.safetensors", 3), np.ones((4, 3)))


def test_the_command(tmp_path, capsys, monkeypatch):
    """On the point mass, tiny: 49 experts; a second call records again without training again."""
    out = tmp_path / "pointmass.safetensors"
    command = ["experts", "--env", "pointmass", "--out", str(out), *flags(steps=320, seeds=2, envs=4)]
    assert main(command) == 0
    said = capsys.readouterr().out
    assert f"{49 * 6} states of 49 experts" in said
    assert said.count("missed") > 40, "hardly trained, and it says so"
    before, found = out.read_bytes(), target_states.read(out)
    assert found.facts["steps"] == 320
    assert len(set(found.steps)) > 1, "all at one evaluation"
    assert main(command) == 0
    assert out.read_bytes() == before
    out.unlink()
    assert main(command) == 0
    again = target_states.read(out)
    assert 0 < again.missed.sum() < 49
    assert (again.steps == 320).all(), "from the last checkpoint"
    assert (found.error <= again.error).all(), "the end was closer than the best"
    assert main([*command, "--sigma", "0.3"]) == 2
    assert "trained otherwise" in capsys.readouterr().err

    monkeypatch.setattr(experts, "REQUESTS", 13)
    recorded = ["experts", "--env", "pointmass", "--policy", str(tmp_path / "pointmass")]
    assert main([*recorded, "--out", str(tmp_path / "new.safetensors")]) == 0
    fresh = target_states.read(tmp_path / "new.safetensors")
    assert fresh.error.mean() < again.error.mean(), "asked for many velocities, it comes no closer than asked for 49"
    assert main([*recorded, "--out", str(out)]) == 0
    merged = target_states.read(out)
    best = np.minimum(again.error, fresh.error)
    np.testing.assert_allclose(merged.error, np.where(again.missed, best, again.error), err_msg="replaced one that hit")
    assert [facts["command"] for facts in merged.facts["before"]] == [again.facts["command"]]
    capsys.readouterr()
    assert main([*recorded, "--seeds", "2"]) == 2
    assert "--policy trains nothing, so --seeds" in capsys.readouterr().err
    assert main([*recorded[:2], "HalfCheetah", *recorded[3:]]) == 2
    assert "does not pursue velocities of HalfCheetah" in capsys.readouterr().err
    assert main([*recorded, "--out", str(tmp_path / "pointmass" / "policy.safetensors")]) == 2
    assert "does not hold experts of pointmass" in capsys.readouterr().err
    ant = tmp_path / "ant.safetensors"
    ant.write_bytes(target_states.shipped("Ant").read_bytes())
    assert main([*recorded, "--out", str(ant)]) == 2
    assert "they are of Ant" in capsys.readouterr().err


def test_requests_go_beyond_what_was_trained():
    found = experts.requests(Box((-2.0, 0.0), (2.0, 3.0)), 5)
    assert found.shape == (25, 2)
    np.testing.assert_allclose(np.unique(found[:, 0]), [-3, -1.5, 0, 1.5, 3])
    np.testing.assert_allclose(np.unique(found[:, 1]), [-0.75, 0.375, 1.5, 2.625, 3.75])


def test_the_recorded_command_asks_for_the_same():
    given = experts.EXPERT | Options(env="Ant", steps=5000, seeds=1, terminate=True, alive_bonus=8.0)
    config = experts.configuration(given)
    words = experts.command(config).split()
    assert words[:2] == ["vgcrl", "experts"]
    options = dict(zip(words[2::2], words[3::2], strict=True))
    assert options == {
        "--env": "Ant",
        "--steps": "5000",
        "--seeds": "1",
        "--terminate": "yes",
        "--alive-bonus": "8.0",
    }


def test_experts_that_may_fall_are_kept_under_the_command_that_trains_them(tmp_path, monkeypatch):
    """They are recorded without early ends, which is no option of the command."""
    config = experts.configuration(experts.EXPERT | Options(env="Ant", steps=5000, terminate=True, alive_bonus=8.0))
    keep = experts.Keeper(config, tmp_path / "Ant.safetensors", None)
    path = np.zeros((1, 41, 49, keep.program.spec.obs_dim), np.float32)
    monkeypatch.setattr(keep.program, "record_episodes", lambda runs, z: path)
    keep(None, 7)
    assert keep.best.facts["command"] == experts.command(config)
    assert experts.kept(keep.out, config) is not None, "lost when training goes on"


def test_environments_without_velocities_are_refused(capsys):
    assert main(["experts", "--env", "Pendulum-v1", "--steps", "100"]) == 2
    assert "does not say which those are" in capsys.readouterr().err


SHIPPED = [name for name in TASKS if target_states.shipped(name)]


@pytest.mark.parametrize("name", SHIPPED)
def test_what_ships_fits_its_environment(name):
    found = target_states.read(target_states.shipped(name))
    spec = resolve(Options(env=name)).specification
    count = len(experts.SPEEDS) ** len(spec.velocity)
    assert found.asked.shape == found.achieved.shape == (count, len(spec.velocity))
    assert found.states.shape == (count * experts.STATES, spec.obs_dim)
    assert found.facts["env"] == name
    assert {"command", "seeds", "steps", "hardware", "tolerance"} <= found.facts.keys()
    speeds = found.states[:, list(spec.velocity)].reshape(count, experts.STATES, -1).mean(axis=1)
    kept = ~found.missed
    assert np.abs(speeds - found.asked)[kept].mean() < 0.5, "states that do not move as their expert does"


@pytest.mark.parametrize(("name", "most"), [("HalfCheetah", 0), ("Ant", 1), ("Humanoid", 4)])
def test_few_of_the_experts_missed(name, most):
    assert target_states.quality(name)[0] <= most


def test_some_of_the_targets_are_of_all_experts_alike():
    every = np.asarray(target_states.default("HalfCheetah", 17)).reshape(7, 6, 17)
    some = np.asarray(target_states.default("HalfCheetah", 17, 20))
    assert (some.reshape(7, 2, 17) == every[:, :2]).all()
    few = np.asarray(target_states.default("HalfCheetah", 17, 3))
    assert (few == every[[0, 3, 6], 0]).all(), "the slowest, the middle and the fastest"


@pytest.mark.slow
def test_who_falls_stays_down_when_experts_are_recorded(tmp_path, capsys):
    """Hardly trained it falls at once; with early ends in the recording half the states would be fresh starts."""
    out = tmp_path / "Humanoid.safetensors"
    small = flags(steps=320, seeds=1, horizon=150, replay=4000, evaluate_every=320, checkpoint_every=320)
    assert main(["experts", "--env", "Humanoid", "--terminate", "yes", "--out", str(out), *small]) == 0
    found = target_states.read(out)
    assert found.states[:, 0].max() < 1.0, "a fresh start is at 1.4"
    assert found.fell.all()
    assert found.missed.all(), "lying still is not standing still"


@pytest.mark.slow
def test_training_uses_some_and_evaluate_all(tmp_path, capsys):
    out = tmp_path / "run"
    small = flags(steps=320, horizon=20, replay=4000, evaluate_every=320, checkpoint_every=320)
    assert main(["train", "--env", "HalfCheetah", "--out", str(out), *small]) == 0
    capsys.readouterr()
    assert main(["evaluate", str(out), "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["targets"] == "42 expert states"
    assert record["mean"]["lgr_v"] == pytest.approx(1.5, abs=1.0), "hardly trained: about the mean square of targets"
    wrong = tmp_path / "wrong.csv"
    wrong.write_text("1,2,3\n")
    assert main(["evaluate", str(out), "--targets", str(wrong)]) == 2
    assert "rows of 17 finite numbers" in capsys.readouterr().err


def test_targets_from_files(tmp_path):
    """With a head, an ending in capitals, and of observations with a shape; a first row with a number is no head."""
    numbers = np.arange(12, dtype=np.float32).reshape(3, 4)
    text = "".join(",".join(map(str, row)) + "\n" for row in numbers.tolist())
    for name, content in {
        "plain.csv": text,
        "head.csv": "a,b,c,d\n" + text,
        "comment.csv": "# a b c d\n" + text,
    }.items():
        (tmp_path / name).write_text(content)
        np.testing.assert_array_equal(target_states.from_file(tmp_path / name, 4), numbers)
    for name, array in {"T.NPY": numbers, "shaped.npy": numbers.reshape(3, 2, 2)}.items():
        with (tmp_path / name).open("wb") as file:
            np.save(file, array)
    np.testing.assert_array_equal(target_states.from_file(tmp_path / "T.NPY", 4), numbers)
    np.testing.assert_array_equal(target_states.from_file(tmp_path / "shaped.npy", 4, (2, 2)), numbers)
    for shape in (None, (4,), (2, 2, 1)):
        with pytest.raises(UsageError, match=r"holds \(3, 2, 2\) values; valid: .* rows of 4 finite numbers"):
            target_states.from_file(tmp_path / "shaped.npy", 4, shape)
    (tmp_path / "bad.csv").write_text("1,x,2,3\n" + text)
    with pytest.raises(UsageError, match="cannot be read"):
        target_states.from_file(tmp_path / "bad.csv", 4)


def test_experts_of_another_command_stay(tmp_path, capsys):
    out = tmp_path / "HalfCheetah.safetensors"
    out.write_bytes(target_states.shipped("HalfCheetah").read_bytes())
    before = out.read_bytes()
    assert main(["experts", "--env", "HalfCheetah", "--out", str(out), *flags(steps=160, seeds=1, horizon=20)]) == 2
    assert "is no part of this training" in capsys.readouterr().err
    assert out.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == [out.name]
