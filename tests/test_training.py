"""Runs: bit for bit the same again, after a kill, and after damage; stopped by a signal or a bad observation."""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from matplotlib.figure import Figure
from safetensors.numpy import load_file

import vgcrl
from tiny import TINY, flags
from vgcrl.cli import main
from vgcrl.envs import ENVS, Env
from vgcrl.show import figures
from vgcrl.training import checkpoint, loop, policy_file, run_folder, trainer
from vgcrl.training.config import Config
from vgcrl.training.logs import read_lines
from vgcrl.training.options import Options
from vgcrl.training.program import policy
from vgcrl.training.resolve import resolve

pytestmark = pytest.mark.usefixtures("unrendered")


def newest(run: Path) -> Path:
    return max((run / "checkpoints").iterdir())


def assert_same_state(one: Path, two: Path):
    """Parameters, optimisers, replay, environments and keys, to the bit; and the same metrics on the way."""
    a, b = (load_file(newest(run) / "state.safetensors") for run in (one, two))
    assert newest(one).name == newest(two).name
    assert a.keys() == b.keys()
    assert all(np.array_equal(a[k], b[k], equal_nan=True) for k in a)
    lines = [[{**line, "wall": 0} for line in read_lines(run / "metrics.jsonl")] for run in (one, two)]
    assert lines[0] == lines[1]


@pytest.fixture
def whole(trained):
    """An uninterrupted run."""
    return trained


def test_run_directory(whole):
    assert {"config.json", "metrics.jsonl", "checkpoints", "events", "report.html"} <= {p.name for p in whole.iterdir()}
    lines = read_lines(whole / "metrics.jsonl")
    assert [line["step"] for line in lines] == [0, 160, 320, 480, 640]
    assert all(line["wall"] >= 0 and len(line["seeds"]) == 2 for line in lines)
    assert len(list((whole / "checkpoints").iterdir())) == 2


@pytest.mark.slow  # the next is of the same seed too
def test_same_seed_same_bits(whole, tmp_path):
    assert main(["train", "--out", str(tmp_path / "again"), *flags()]) == 0
    assert_same_state(whole, tmp_path / "again")


@pytest.mark.slow
def test_whatever_random_numbers_jax_would_use(whole, tmp_path, capsys):
    with jax.default_prng_impl("rbg"):
        assert main(["train", "--out", str(tmp_path / "again"), *flags()]) == 0
        assert evaluated(tmp_path / "again", capsys) == evaluated(whole, capsys)
    assert_same_state(whole, tmp_path / "again")


@pytest.mark.slow
def test_other_seed_other_bits(whole, tmp_path):
    assert main(["train", "--out", str(tmp_path / "other"), *flags(seed=7)]) == 0
    assert (
        read_lines(whole / "metrics.jsonl")[-1]["mean"] != read_lines(tmp_path / "other" / "metrics.jsonl")[-1]["mean"]
    )


KILLED = """
import os, signal, sys
from vgcrl.cli import main
from vgcrl.training import checkpoint

rename = checkpoint.Path.rename

def killed(path, name):
    if path.name == ".000000000480":
        os.kill(os.getpid(), signal.SIGKILL)
    return rename(path, name)

checkpoint.Path.rename = killed
main(["train", "--out", *sys.argv[1:]])
"""


def test_killed_and_resumed_is_bit_identical(whole, tmp_path):
    """SIGKILL where a checkpoint is written and not yet in its place, as another process."""
    out = tmp_path / "killed"
    done = subprocess.run([sys.executable, "-c", KILLED, str(out), *flags()], capture_output=True, text=True)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert sorted(p.name for p in (out / "checkpoints").iterdir())[0] == ".000000000480"
    assert newest(out).name == "000000000320"
    with (out / "metrics.jsonl").open("a") as file:
        file.write('{"step": 999, "wal')  # a line cut off by the kill
    assert main(["resume", str(out)]) == 0
    assert_same_state(whole, out)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_run_saves_and_resumes(whole, tmp_path, number, capsys, monkeypatch):
    """The signal comes in the middle of the second evaluation."""
    original, out = loop.append_line, tmp_path / "stopped"

    def append(path, line):
        original(path, line)
        if line["step"] == 160:
            signal.raise_signal(number)

    with monkeypatch.context() as patch:
        patch.setattr(loop, "append_line", append)
        assert main(["train", "--out", str(out), *flags()]) == 130
    assert f"vgcrl resume {out}" in capsys.readouterr().err.replace("\n", "")
    assert newest(out).name == "000000000160"
    assert main(["resume", str(out)]) == 0
    assert_same_state(whole, out)


def test_extended_run_equals_a_longer_one(whole, tmp_path, capsys):
    out = tmp_path / "short"
    assert main(["train", "--out", str(out), *flags(steps=320)]) == 0
    assert main(["resume", str(out), "--steps", "640"]) == 0
    assert_same_state(whole, out)
    assert json.loads((out / "config.json").read_text())["steps"] == 640
    assert main(["resume", str(out), "--steps", "639"]) == 0, "whole iterations are done of what is asked for"
    assert main(["resume", str(out), "--steps", "600"]) == 2
    assert "--steps 600 is less than the 640 already done" in capsys.readouterr().err


@pytest.mark.parametrize("damage", ["truncate", "flip", "missing"])
def test_damaged_checkpoint_is_named_and_the_one_before_used(whole, tmp_path, damage, capsys):
    out = shutil.copytree(whole, tmp_path / "damaged")
    file = newest(out) / "state.safetensors"
    data = bytearray(file.read_bytes())
    if damage == "truncate":
        file.write_bytes(data[:-100])
    elif damage == "flip":
        data[len(data) // 2] ^= 1
        file.write_bytes(data)
    else:
        file.unlink()
    capsys.readouterr()
    assert main(["resume", str(out)]) == 0
    said = capsys.readouterr().err
    assert "damaged" in said
    assert str(file) in said.replace("\n", "")
    assert_same_state(whole, out)


def test_no_sound_checkpoint_is_an_error(whole, tmp_path, capsys):
    out = shutil.copytree(whole, tmp_path / "all-damaged")
    for file in out.glob("checkpoints/*/state.safetensors"):
        file.write_bytes(b"nothing")
    assert main(["resume", str(out)]) == 2
    assert "no sound checkpoint" in capsys.readouterr().err


def test_other_layout_is_refused(whole, tmp_path, capsys, monkeypatch):
    out = shutil.copytree(whole, tmp_path / "old")
    written = checkpoint.LAYOUT
    monkeypatch.setattr(checkpoint, "LAYOUT", 99)
    capsys.readouterr()
    assert main(["resume", str(out)]) == 2
    assert f"layout {written}; valid: a run of this version, layout 99" in capsys.readouterr().err


def test_configuration_of_another_version_is_refused(whole, tmp_path, capsys):
    values = json.loads((whole / "config.json").read_text())
    del values["critic"]
    (tmp_path / "config.json").write_text(json.dumps(values))
    assert main(["resume", str(tmp_path)]) == 2
    assert "no 'critic', which this version needs" in capsys.readouterr().err


def test_an_option_that_came_later_is_as_it_was_without_it(whole):
    values = json.loads((whole / "config.json").read_text())
    del values["alive_bonus"]
    assert Config.from_json(json.dumps(values)) == run_folder.read_config(whole)


def test_one_process_at_a_time(whole, capsys):
    with run_folder.locked(whole):
        assert main(["resume", str(whole)]) == 2
    assert "another process" in capsys.readouterr().err


def test_observation_not_finite_stops_the_run(tmp_path, capsys, monkeypatch):
    """The message names environment and step, and what was saved before stays."""
    row = ENVS["pointmass"]

    engine = row.engines["jax"]

    def broken(worlds, **options):
        env = engine.build(worlds, **options)

        def step(sim, action, key):
            sim, obs, terminal = env.step(sim[0], action, key), sim[1] + 1, None
            (inner, obs, terminal), count = sim, obs
            return (inner, count), jnp.where(count > 60, jnp.nan, obs), terminal

        def reset(key):
            sim, obs = env.reset(key)
            return (sim, jnp.zeros((), jnp.int32)), obs

        return Env(env.spec, reset, step)

    monkeypatch.setitem(ENVS, "broken", row._replace(engines={"jax": engine._replace(build=broken)}))
    out = tmp_path / "nan"
    assert main(["train", "--env", "broken", "--out", str(out), *flags()]) == 2
    said = capsys.readouterr().err
    assert "broken: observation not finite in environment 0 of seed 0 at step 244" in said
    assert int(newest(out).name) == 160
    assert all(
        np.all(np.isfinite(v)) for k, v in load_file(newest(out) / "state.safetensors").items() if "learner" in k
    )


def test_where_every_run_diverges_training_stops(tmp_path, capsys):
    out = tmp_path / "lost"
    assert main(["train", "--out", str(out), *flags(), "--learning-rate", "1e15"]) == 2
    said = capsys.readouterr().err.splitlines()
    assert "every run has diverged at step" in said[-1]
    assert "a smaller --learning-rate than 1000000000000000.0" in said[-1]
    assert newest(out).exists()


def test_a_run_that_diverges_is_told_once_and_the_others_go_on(tmp_path, capsys, monkeypatch):
    out = tmp_path / "half"
    assert main(["train", "--out", str(out), *flags(seeds=1), "--learning-rate", "1e-3,1e15"]) == 0
    reported = [line for line in capsys.readouterr().err.splitlines() if "diverged at step" in line]
    rows = read_lines(out / "metrics.jsonl")[-1]["seeds"]
    lost = [row for row in rows if row["learning_rate"] > 1]
    assert [line.split(",")[0] for line in reported] == [f"seed {row['seed']}" for row in lost]
    for row in rows:
        sound = row["train"]["actor_loss"] is not None
        assert sound == (row not in lost)
        assert row["lgr_s"] is not None, "states stay numbers"
    drawn = []
    monkeypatch.setattr(figures, "curves", lambda lines, names, *_: drawn.append(names) or Figure())
    last = json.loads((out / "metrics.jsonl").read_text().splitlines()[-1])
    last["mean"]["F"] = next(row for row in last["seeds"] if row["learning_rate"] > 1)["F"] = None  # as its q diverged
    del last["digest"]
    (out / "metrics.jsonl").write_text(json.dumps(last) + "\n")
    assert main(["report", str(out)]) == 0
    assert drawn == [("F", "lgr_z", "lgr_s")], "the other runs have them"


def test_checkpoints_hold_no_pickle(whole):
    """The file is a safetensors header and raw numbers: what is not in the header's ranges does not exist."""
    data = (newest(whole) / "state.safetensors").read_bytes()
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])
    ends = [entry["data_offsets"][1] for name, entry in header.items() if name != "__metadata__"]
    assert 8 + size + max(ends) == len(data)
    assert not any(p.suffix in (".pkl", ".pickle") for p in whole.rglob("*"))
    assert os.access(whole / "report.html", os.R_OK)


def alone(run: Path, out: Path) -> Path:
    """What someone else is given of a run."""
    out.mkdir()
    for name in ("config.json", "policy.safetensors"):
        shutil.copy(run / name, out)
    return out


def evaluated(run: Path, capsys) -> dict:
    capsys.readouterr()
    assert main(["evaluate", str(run), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_a_policy_does_without_its_checkpoints(whole, tmp_path, capsys):
    given = alone(whole, tmp_path / "given")
    assert evaluated(given, capsys) == evaluated(whole, capsys)
    obs, goal = np.zeros(4), np.ones(4)
    one, two = (vgcrl.load(run, seed=1).act(obs, goal_state=goal) for run in (whole, given))
    np.testing.assert_array_equal(one, two)
    names = load_file(given / "policy.safetensors")
    assert not [name for name in names if any(part in name for part in ("replay", "scene", "optimiser", "critics"))]
    assert run_folder.is_finished(given)


def test_a_policy_alone_is_not_trained_on(whole, tmp_path, capsys):
    given = alone(whole, tmp_path / "given")
    before = (given / "policy.safetensors").read_bytes()
    for steps in ([], ["--steps", "960"]):
        assert main(["resume", str(given), *steps]) == 2
        assert "no checkpoint to go on from" in capsys.readouterr().err
    assert (given / "policy.safetensors").read_bytes() == before


def test_the_newest_that_is_sound_is_measured(whole, tmp_path, capsys):
    """Be it a checkpoint or the policy beside it."""
    found, out = evaluated(whole, capsys), shutil.copytree(whole, tmp_path / "run")
    for file in sorted(out.glob("checkpoints/*/state.safetensors"), reverse=True):
        file.write_bytes(b"nothing")
        assert evaluated(out, capsys) == found
    out = shutil.copytree(whole, tmp_path / "other")
    (out / "policy.safetensors").write_bytes(b"nothing")
    assert evaluated(out, capsys) == found


@pytest.mark.parametrize("damage", ["truncate", "flip"])
def test_a_damaged_policy_is_told_in_one_line(whole, tmp_path, capsys, damage):
    file = alone(whole, tmp_path / "given") / "policy.safetensors"
    data = bytearray(file.read_bytes())
    data[-100] ^= 1
    file.write_bytes(data if damage == "flip" else data[:-100])
    assert main(["evaluate", str(file.parent)]) == 2
    said = capsys.readouterr().err
    assert "damaged policy" in said
    assert said.count("\n") == 1


@pytest.mark.parametrize("header", ["[", "5", "[]", "[" * 50_000])
def test_a_policy_whose_header_is_damaged_is_told_in_one_line(whole, tmp_path, capsys, header):
    """With a checksum that fits."""
    run = alone(whole, tmp_path / "given")
    program, runs, counters = trainer.restore(run, pytest.fail)
    policy_file.save(run, counters["step"], policy(program.config, runs), counters, config=header)
    assert main(["evaluate", str(run)]) == 2
    said = capsys.readouterr().err
    assert said.startswith("vgcrl: damaged policy: ")
    assert said.count("\n") == 1


def test_evaluations_that_were_lost_are_told(whole, tmp_path, capsys):
    run = shutil.copytree(whole, tmp_path / "run")
    path = run / "metrics.jsonl"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:-2]))
    assert main(["resume", str(run)]) == 0
    assert "metrics.jsonl has no evaluation from step 321 to 640: lines were lost, or" in capsys.readouterr().err
    assert main(["resume", str(run)]) == 0
    assert "has no evaluation" not in capsys.readouterr().err


BODY = ["--env", "HalfCheetah", *flags(steps=192, horizon=20, replay=4000, evaluate_every=192)]


@pytest.mark.parametrize("engine", ["mujoco", pytest.param("mjx", marks=pytest.mark.slow)])
def test_a_body_goes_on_to_the_bit(engine, tmp_path):
    """In mid-episode: the simulator's whole state is in the checkpoint."""
    whole, half = tmp_path / "whole", tmp_path / "half"
    options = [*BODY, "--engine", engine, "--checkpoint-every", "128"]
    assert main(["train", "--out", str(whole), *options]) == 0
    assert main(["train", "--out", str(half), *options, "--steps", "128"]) == 0
    assert main(["resume", str(half), "--steps", "192"]) == 0
    lines = [[line for line in read_lines(run / "metrics.jsonl") if line["step"] != 128] for run in (whole, half)]
    for run, kept in zip((whole, half), lines, strict=True):
        (run / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in kept))
    assert_same_state(whole, half)


@pytest.mark.slow
def test_a_run_goes_on_with_another_engine(tmp_path, capsys):
    """In fresh episodes: what one has saved is nothing to the other."""
    out = tmp_path / "run"
    assert main(["train", "--out", str(out), *BODY, "--engine", "gymnasium", "--steps", "128"]) == 0
    config = json.loads((out / "config.json").read_text())
    (out / "config.json").write_text(json.dumps(config | {"engine": "mujoco", "workers": None}))
    capsys.readouterr()
    assert main(["resume", str(out), "--steps", "192"]) == 0
    assert "HalfCheetah cannot be restored in mid-episode" in capsys.readouterr().err
    assert main(["resume", str(out)]) == 0
    assert "mid-episode" not in capsys.readouterr().err, "nothing to go on with"


@pytest.mark.parametrize(
    ("changes", "reported"),
    [
        ({"steps": 64}, "--random-steps 64 comes first, of --steps 64"),
        ({"steps": 128, "batch": 128}, "--batch 128 comes first, of --steps 128"),
        ({"steps": 68}, ""),
    ],
)
def test_where_nothing_will_be_learned_it_is_told(changes, reported, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(trainer, "train_loop", lambda *_: None)
    trainer.start(Options(**TINY | {"updates_per_step": 1.0} | changes), tmp_path / "run")
    said = capsys.readouterr().err
    assert said.strip() == (f"nothing will be learned: {reported}" if reported else "")


def test_a_folder_of_its_own(tmp_path, monkeypatch):
    """Unless told; also where another process has just taken the name."""
    monkeypatch.chdir(tmp_path)
    config = resolve(Options())
    taken = [run_folder.fresh_folder(config) for _ in range(3)]
    assert [str(p) for p in taken] == ["runs/diayn-pointmass", "runs/diayn-pointmass-2", "runs/diayn-pointmass-3"]
    assert all(p.is_dir() for p in taken)


def test_a_run_whose_usual_folder_is_taken_says_where_it_is(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(trainer, "train_loop", lambda *_: None)
    for said in ("", "runs/diayn-pointmass is taken: this run is runs/diayn-pointmass-2\n"):
        trainer.start(Options(**TINY), None)
        assert capsys.readouterr().err == said
