"""Bad input is one line naming the option, the fault and what is valid; exit code 2; nothing is written."""

import hashlib
import json
import logging
import os
import shlex
import shutil
import signal
import subprocess
import sys
import warnings
from pathlib import Path
from unittest.mock import Mock

import jax
import matplotlib
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import vgcrl
from tiny import flags
from untrained import untrained
from vgcrl.cli import COMMANDS, main
from vgcrl.envs import ENVS
from vgcrl.errors import install
from vgcrl.files import atomic_write
from vgcrl.measure import target_states
from vgcrl.objective.methods import METHODS
from vgcrl.training import checkpoint, policy_file, run_folder, trainer
from vgcrl.training.program import policy

pytestmark = pytest.mark.usefixtures("unrendered")
BAD = {
    "unknown command": (["trian"], "trian"),
    "no command": ([], "COMMAND"),
    "an option for a command": (["--nosuch"], "--nosuch"),
    "an option without its value": (["train", "--hidden"], "valid: --hidden H1,H2"),
    "nothing to resume": (["resume"], "valid: `vgcrl resume RUN`"),
    "a required option": (["experts"], "valid: `vgcrl experts --env ENV`"),
    "one of two options": (["film", "ant-place", "--skills", "0", "--goal", "1,2"], "valid: one of the two"),
    "unknown method": (["train", "dyain"], "did you mean diayn"),
    "method of a module": (["train", "mine"], "or --import MODULE, which registers it"),
    "unknown env": (["train", "diayn", "--env", "pointmas"], "did you mean pointmass"),
    "unknown option": (["train", "--goaldim", "3"], "did you mean --goal-dim"),
    "abbreviated option": (["train", "--step", "3"], "did you mean --steps"),
    "zero steps": (["train", "--steps", "0"], "--steps 0"),
    "negative steps": (["train", "--steps", "-5"], "--steps -5"),
    "no number": (["train", "--steps", "many"], "--steps"),
    "a fraction of a step": (["train", "--steps", "1.5"], "--steps"),
    "zero seeds": (["train", "--seeds", "0"], "--seeds 0"),
    "negative seed": (["train", "--seed", "-1"], "--seed -1"),
    "zero envs": (["train", "--envs", "0"], "--envs 0"),
    "wind too long": (["train", "gcrl", "--env", "windy-pointmass", "--wind", "1,2,3"], "--wind has 3"),
    "wind without dims": (
        ["train", "gcrl", "--env", "windy-pointmass", "--dims", "3", "--wind", "1,2"],
        "--wind has 2",
    ),
    "wind not finite": (["train", "gcrl", "--env", "windy-pointmass", "--wind", "0,inf"], "--wind inf"),
    "wind past single precision": (["train", "gcrl", "--env", "windy-pointmass", "--wind", "0,1e38"], "--wind 1e+38"),
    "sigma past single precision": (["train", "gcrl", "--sigma", "1e39"], "--sigma 1e+39"),
    "bonus past single precision": (["train", "--alive-bonus", "-1e39"], "--alive-bonus -1e+39"),
    "entropy past single precision": (["train", "--target-entropy", "1e39"], "--target-entropy 1e+39"),
    "rate past single precision": (["train", "--learning-rate", "1e39"], "--learning-rate 1e+39"),
    "wind no number": (["train", "gcrl", "--env", "windy-pointmass", "--wind", "0,x"], "--wind"),
    "wind where none blows": (["train", "--wind", "1,2"], "windy-pointmass"),
    "projection of nothing": (["train", "--projection-dim", "3"], "projected-pointmass"),
    "negative bound": (["train", "--spectral-norm", "-1"], "--spectral-norm -1"),
    "no bound for lsd": (["train", "lsd", "--spectral-norm", "0"], "nothing else bounds the φ of lsd"),
    "bound without layers": (["train", "gcrl", "--spectral-norm", "2"], "--spectral-norm"),
    "states in other units": (
        ["train", "gcrl", "--posterior-features", "standard"],
        "--posterior-features does not apply",
    ),
    "decoys in other units": (
        ["train", "discern", "--posterior-features", "standard"],
        "--posterior-features does not apply",
    ),
    "rate of a fixed q": (["train", "gcrl", "--posterior-learning-rate", "1e-4"], "--posterior-learning-rate does not"),
    "goal-dim of states": (["train", "gcrl", "--goal-dim", "7"], "--goal-dim 7"),
    "one category": (["train", "diayn", "--goal-dim", "1"], "--goal-dim 1"),
    "zero goal-dim": (["train", "vgcrl", "--goal-dim", "0"], "--goal-dim 0"),
    "posterior of another": (["train", "diayn", "--posterior", "gmm"], "--posterior 'gmm'"),
    "unknown relabel": (["train", "--relabel", "hre"], "did you mean her"),
    "fraction above one": (["train", "--relabel", "her", "--relabel-fraction", "1.5"], "--relabel-fraction 1.5"),
    "fraction of nothing": (["train", "--relabel", "none", "--relabel-fraction", "0.5"], "--relabel-fraction"),
    "unknown feature": (["train", "--features", "speed"], "--features 'speed'"),
    "feature out of range": (["train", "--features", "0,9"], "--features '0,9'"),
    "feature twice": (["train", "--features", "0,0"], "--features '0,0'"),
    "unknown engine": (["train", "--engine", "brax"], "--engine 'brax'"),
    "engine that cannot": (["train", "--engine", "mjx"], "--engine mjx"),
    "more dimensions than can be": (["train", "--dims", "2147483647"], "--dims 2147483647"),
    "metric of other environments": (
        ["train", "--stop-when", "env_success>=1"],
        "--stop-when 'env_success' is unknown",
    ),
    "components of one": (["train", "--components", "3"], "--components does not apply to --posterior categorical"),
    "sigma of a network": (["train", "vgcrl", "--sigma", "2"], "--sigma does not apply to --posterior gaussian;"),
    "state of nothing": (["train", "--relabel-state", "later"], "--relabel-state does not apply without relabelling"),
    "episodes past any replay": (["train", "--horizon", "2147483647"], "--horizon 2147483647"),
    "replay for long episodes": (["train", "--horizon", "1000", "--replay", "20000"], "episodes of 1000 steps"),
    "tiny replay": (["train", "--replay", "10"], "--replay 10"),
    "odd ratio": (["train", "--updates-per-step", "0.3141592653"], "--updates-per-step"),
    "knobs of unlike length": (["train", "--learning-rate", "1,2,3", "--spectral-norm", "1,2"], "--spectral-norm"),
    "not a run": (["resume", "."], "not a run folder"),
    "nowhere": (["evaluate", "no/such/run"], "not a run folder"),
    "nothing to report": (["report", "no/such/run"], "not a run folder"),
    "no episodes": (["evaluate", ".", "--episodes", "0"], "--episodes"),
    "unknown list": (["list", "spells"], "spells"),
    "seeds past the last": (["train", "--seed", "2147483647", "--seeds", "2"], "--seed 2147483647 with --seeds 2"),
    "steps past 32 bits": (["train", "--steps", "3000000000"], "--steps 3000000000"),
    "steps past everything": (["train", "--steps", "1" + 400 * "0"], "--steps"),
    "replay past everything": (["train", "--replay", "1000000000000"], "--replay 1000000000000"),
    "random steps past 32 bits": (["train", "--random-steps", "3000000000"], "--random-steps 3000000000"),
    "a century": (["reproduce", "discrete", "--quick", "--minutes", "1e300", "--dry-run"], "--minutes 1e+300"),
    "time in words": (["bench", "--seconds", "x"], "--seconds"),
    "more environments than can be": (["train", "--envs", "2147483647"], "--envs 2147483647 is too many"),
    "a setting twice": (["train", "--spectral-norm", "0,0"], "--spectral-norm has a setting twice"),
    "experts of what does not move": (["experts", "--env", "Pendulum-v1"], "--env of a robot"),
    "experts of a narrow range": (["experts", "--env", "pointmass", "--goal-range", "-1,1"], "--goal-range -1.0,1.0"),
    "a seed in words": (["film", ".", "--seed", "first"], "argument --seed: 'first' is not valid; valid: an integer"),
    "a setting in words": (["film", ".", "--setting", "x"], "argument --setting: 'x' is not valid; valid: an integer"),
    "more environments than can be timed": (
        ["bench", "--env", "pointmass", "--envs", "2000000"],
        "--envs 2000000 is out",
    ),
    "more memory than there is": (["bench", "--env", "Humanoid", "--envs", "1000000"], "does not fit into memory"),
    "no time at all": (["bench", "--seconds", "nan"], "--seconds nan"),
    "a plot nowhere": (["bench", "--plot", "/dev/null/new/x.png"], "--plot /dev/null/new/x.png"),
    "a plot of another kind": (["bench", "--plot", "x.pdf"], "--plot x.pdf"),
    "experts without an ending": (["experts", "--env", "pointmass", "--out", "x"], "--out x"),
    "experts of a moment": (["experts", "--env", "pointmass", "--horizon", "8"], "--horizon 8"),
    "more updates than can be": (["train", "--updates-per-step", "1e10"], "--updates-per-step 1e+10"),
    "more runs than can be": (["train", "--seeds", "2147483647"], "--seeds 2147483647"),
    "more episodes than can be": (["evaluate", ".", "--episodes", "2147483647"], "--episodes"),
    "0 in single precision": (["train", "--learning-rate", "1e-40"], "--learning-rate 1e-40 is 0 in single precision"),
    "1 in single precision": (["train", "--discount", "0.99999999"], "--discount 0.99999999 is out of range"),
    "a negative power of ten": (["train", "--discount", "-1e-1"], "--discount -0.1"),
    "experts of two settings": (["experts", "--env", "pointmass", "--learning-rate", "1e-3,1e-4"], "--learning-rate"),
    "unknown inputs": (["train", "--inputs", "symlg"], "did you mean symlog"),
    "unknown physics": (["train", "--env", "Ant", "--physics", "quick"], "--physics 'quick'"),
    "runs beyond count": (["bench", "--runs", "1,99999999"], "--runs 99999999 is out of range"),
    "one skill to time": (["bench", "--goal-dim", "10,1"], "--goal-dim 1 cannot serve diayn"),
    "a maze that is not installed": (
        ["train", "gcrl", "--env", "PointMaze_UMaze-v99"],
        "comes with gymnasium-robotics: pip install",
    ),
    "a run without a name": (["evaluate", ""], "run ''"),
    "a film of nothing": (["film", ""], "run ''"),
    "a page of nothing": (["explore", ""], "run ''"),
    "a report of nothing": (["report", ""], "RUN: ''"),
    "nothing to go on with": (["resume", ""], "RUN: ''"),
    "a folder without a name": (["train", "--out", ""], "--out: ''"),
    "unknown peer": (["bench", "--peer", "brax"], "--peer 'brax'"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input(case, capsys, tmp_path, monkeypatch):
    arguments, expected = BAD[case]
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert expected in err
    assert "valid" in err
    assert not list(tmp_path.iterdir()), "nothing is written"


def test_each_setting_ends_with_a_line_of_its_own(tmp_path, monkeypatch, capsys):
    folder = untrained(tmp_path / "run", "diayn", spectral_norm=(0.0, 2.0))
    last = {"step": 640, "mean": {"F": 1.5}, "settings": [{"mean": {"F": 1.0}}, {"mean": {"F": 2.0, "lgr_z": 0.5}}]}
    run = run_folder.Run(folder, run_folder.read_config(folder), last, interrupted=True)
    monkeypatch.setattr(trainer, "start", lambda *_, **__: run)
    assert main(["train"]) == 130
    said = capsys.readouterr().err.splitlines()
    assert said[:2] == [
        "spectral norm 0: F 1.000  after 640 steps",
        "spectral norm 2: F 2.000  LGR(z) 0.500  after 640 steps",
    ]


def test_occupied_directory_is_left_alone(tmp_path, capsys):
    (tmp_path / "precious").write_text("data")
    assert main(["train", "--out", str(tmp_path), *flags()]) == 2
    assert "holds other files" in capsys.readouterr().err
    assert [p.name for p in tmp_path.iterdir()] == ["precious"]


def test_a_second_run_is_not_written_over(windy, capsys):
    before = sorted(p.name for p in windy.rglob("*"))
    assert main(["train", "--out", str(windy), *flags()]) == 2
    assert "holds another run" in capsys.readouterr().err
    assert sorted(p.name for p in windy.rglob("*")) == before


def test_evaluate_json(windy, capsys):
    capsys.readouterr()
    assert main(["evaluate", str(windy), "--json", "--episodes", "6"]) == 0
    out = json.loads(capsys.readouterr().out)
    assert (out["method"], out["env"], out["steps"]) == ("agcrl", "windy-pointmass", 640)
    assert [row["seed"] for row in out["seeds"]] == [0, 1]
    for row in out["seeds"]:
        assert {"F", "log_q", "lgr_z", "lgr_s", "lgr_v"} <= row.keys()
        assert len(row["posterior"]["sigma"]) == 2
    mean = np.mean([row["F"] for row in out["seeds"]])
    assert out["mean"]["F"] == pytest.approx(mean)
    low, high = out["ci95"]["F"]
    assert low < mean < high


def test_evaluate_repeats_the_last_evaluation(windy, capsys):
    """Same episodes, same checkpoint, same numbers."""
    capsys.readouterr()
    main(["evaluate", str(windy), "--json"])
    out = json.loads(capsys.readouterr().out)
    last = json.loads((windy / "metrics.jsonl").read_text().splitlines()[-1])
    assert out["mean"] == pytest.approx(last["mean"])


@pytest.mark.parametrize("kind", ["npy", "json", "csv"])
def test_targets_from_a_file(windy, tmp_path, capsys, kind):
    targets = np.array([[0.5, 0.5, 0, 0], [-1, 0, 0, 0]], np.float32)
    path = tmp_path / f"targets.{kind}"
    if kind == "npy":
        np.save(path, targets)
    elif kind == "json":
        path.write_text(json.dumps(targets.tolist()))
    else:
        path.write_text("\ufeff0.5,0.5,0,0\n\n-1,0,0,0\n\n")  # as a spreadsheet may leave it
    capsys.readouterr()
    assert main(["evaluate", str(windy), "--json", "--targets", str(path)]) == 0
    assert json.loads(capsys.readouterr().out)["mean"]["lgr_s"] > 0


def test_bad_targets(windy, tmp_path, capsys):
    narrow, odd = tmp_path / "narrow.csv", tmp_path / "targets.txt"
    narrow.write_text("1,2\n3,4\n")
    odd.write_text("1")
    for path in (narrow, odd, tmp_path / "missing.npy"):
        capsys.readouterr()
        assert main(["evaluate", str(windy), "--targets", str(path)]) == 2
        assert "rows of 4 finite numbers" in capsys.readouterr().err


def test_list_is_the_registry(capsys):
    assert main(["list", "methods"]) == 0
    out = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in out[1:]] == list(METHODS)
    assert "N(A s, Σ)" in "\n".join(out)


def test_list_tells_the_quality_of_the_shipped_targets(capsys):
    """An expert that misses its velocity is told, not hidden."""
    assert main(["list", "targets"]) == 0
    out = capsys.readouterr().out
    shipped = [path for path in map(target_states.shipped, ENVS) if path]
    assert [path.stem for path in shipped] == ["HalfCheetah", "Ant", "Humanoid"]
    for found in map(target_states.read, shipped):
        assert f"of {len(found.asked)} experts, {found.missed.sum()} missed" in out
        assert len(found.states) == 6 * len(found.asked)
        assert found.facts["command"] in out
        assert found.facts.get("remark", "as that command writes it") in out
    marks = out.count(" missed\n") + out.count(" fell\n")
    assert marks == sum(target_states.read(path).missed.sum() for path in shipped)


@pytest.mark.slow
def test_output_that_nobody_reads_is_no_error():
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "vgcrl", "list", "targets"]
    done = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, text=True)
    os.close(write)
    assert done.returncode == 141
    assert done.stderr == ""


def test_output_that_is_closed_is_no_error():
    command = ["sh", "-c", f"exec {sys.executable} -m vgcrl list methods >&-"]
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def spoken(words, folder="."):
    """How a shell ends that runs `vgcrl` with these words, redirections among them, in a folder."""
    command = f"cd {folder} && exec {sys.executable} -m vgcrl {words}"
    return subprocess.run(["sh", "-c", command], capture_output=True, text=True, stdin=subprocess.DEVNULL)


@pytest.mark.parametrize("closed", ["2>&-", "<&- >&- 2>&-"])
def test_where_nobody_listens_nothing_is_said_to_another(closed):
    done = spoken(f"trian {closed}")
    assert (done.returncode, done.stdout) == (2, "")


def test_the_numbers_of_what_is_closed_are_taken():
    code = "import os; from vgcrl.__main__ import _with_standard_files as f; f(); os.write(1, b'%d' % min(os.pipe()))"
    done = subprocess.run(["sh", "-c", f'exec {sys.executable} -c "{code}" <&- 2>&-'], capture_output=True)
    assert int(done.stdout) > 2


def test_a_terminal_that_is_full():
    """Help that was not written is an error, and an error that cannot be told is still one."""
    for words in ("--help", "train --help"):
        done = spoken(f"{words} >/dev/full")
        assert (done.returncode, done.stderr.count("\n")) == (2, 1)
        assert "No space left on device; valid: " in done.stderr
    assert spoken("trian 2>/dev/full").returncode == 2


def test_a_device_that_is_full_is_named(trained, capsys):
    assert main(["explore", str(trained), "--out", "/dev/full"]) == 2
    assert "vgcrl: /dev/full: No space left on device; valid: " in capsys.readouterr().err


def test_a_printed_command_takes_a_folder_for_no_option(trained):
    command = run_folder.command_for("resume", Path("-x y"), run_folder.read_config(trained))
    assert shlex.split(command) == ["vgcrl", "resume", "./-x y"]


def test_in_a_folder_that_was_removed(tmp_path, monkeypatch, capsys):
    gone = tmp_path / "gone"
    gone.mkdir()
    done = spoken("--help", f"{gone} && rmdir {gone}")
    assert (done.returncode, done.stderr) == (0, "")
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert main(["list"]) == 2
    assert capsys.readouterr().err == "vgcrl: the current folder was removed; valid: to be in one that is there\n"


@pytest.fixture
def jax_as_it_was():
    before = {name: getattr(jax.config, name) for name in ("jax_enable_x64", "jax_compilation_cache_dir")}
    yield
    for name, value in before.items():
        jax.config.update(name, value)


def test_everything_is_computed_in_single_precision(jax_as_it_was, tmp_path):
    """A command sees to it; in Python the user has decided."""
    jax.config.update("jax_enable_x64", True)
    with pytest.raises(vgcrl.UsageError, match=r"in double precision, .* valid: jax\.config\.update"):
        vgcrl.train(out=tmp_path / "run")
    assert not list(tmp_path.iterdir())
    assert main(["list", "methods"]) == 0
    assert not jax.config.jax_enable_x64


def test_a_cache_that_cannot_be_written_is_not_used(jax_as_it_was, monkeypatch, tmp_path):
    """JAX would warn of it at every program, and matplotlib of its own."""
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    monkeypatch.delenv("JAX_COMPILATION_CACHE_DIR")
    before = jax.config.jax_compilation_cache_dir
    assert main(["list", "methods"]) == 0
    assert jax.config.jax_compilation_cache_dir == before
    assert not logging.getLogger("matplotlib").isEnabledFor(logging.WARNING)


def test_figures_look_the_same_whatever_style_the_user_has(monkeypatch):
    seen = []

    def run(args):
        return seen.append(matplotlib.rcParams["text.usetex"]) or 0

    monkeypatch.setitem(COMMANDS, "report", COMMANDS["report"]._replace(run=run))
    with matplotlib.rc_context({"text.usetex": True}):
        assert main(["report", "run"]) == 0
        assert seen == [False]
        assert matplotlib.rcParams["text.usetex"]


def test_what_is_not_installed_is_named(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "mujoco", None)
    assert main(["train", "--env", "HalfCheetah", "--horizon", "77"]) == 2
    assert capsys.readouterr().err == f"vgcrl: HalfCheetah needs mujoco; valid: {install('mujoco')}\n"
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert main(["list"]) == 0
    reported = capsys.readouterr().out
    assert "pointmass" in reported
    assert "experiment " not in reported
    assert main(["list", "experiments"]) == 2
    assert "list experiments needs matplotlib, jinja2" in capsys.readouterr().err


def test_a_file_is_no_run_and_no_place_for_one(tmp_path, capsys):
    file = tmp_path / "file"
    file.touch()
    assert main(["train", "--out", str(file), *flags()]) == 2
    assert f"--out {file} is a file; valid: " in capsys.readouterr().err
    assert main(["resume", str(file)]) == 2
    assert f"{file} is not a run folder" in capsys.readouterr().err


@pytest.fixture
def copied(trained, tmp_path):
    return shutil.copytree(trained, tmp_path / "run")


def refused(capsys, *arguments):
    """In one line, with exit code 2."""
    capsys.readouterr()
    code = main([str(x) for x in arguments])
    err = capsys.readouterr().err
    return code == 2 and err.count("\n") == 1 and err.startswith("vgcrl: ")


EDITS = [
    {"method": "nosuch"},
    {"engine": "mujoco"},
    {"relabel": "zzz"},
    {"hidden": "8"},
    {"goal_dim": "x"},
    {"seeds": 2.0},
    {"batch": [4]},
    {"hidden": [16.5, 16]},
    {"sigma": None},
    {"terminate": "no"},
    {"evaluate_every": [4]},
]


@pytest.mark.parametrize("edit", EDITS, ids=str)
def test_an_edited_configuration_is_refused(edit, copied, capsys):
    path = copied / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | edit))
    assert refused(capsys, "evaluate", copied)


@pytest.mark.parametrize("command", ["evaluate", "resume"])
def test_of_a_sweep_a_run_is_named(command, copied, capsys, tmp_path):
    sweep = tmp_path / "sweep"
    run = sweep / "runs" / "goal-dim=3"
    run.parent.mkdir(parents=True)
    for name in (".lock", "sweep.json"):
        (sweep / name).touch()
    assert main([command, str(sweep)]) == 2
    assert f"{sweep} is a sweep, which the same `vgcrl sweep` goes on with; " in capsys.readouterr().err
    copied.rename(run)
    assert main([command, str(sweep)]) == 2
    assert capsys.readouterr().err.endswith(f"; valid: one of its runs, e.g. {run}\n")
    (sweep / "sweep.json").unlink()
    assert main([command, str(sweep)]) == 2
    assert capsys.readouterr().err == f"vgcrl: {sweep} is a folder of runs; valid: one of its runs, e.g. {run}\n"


def test_code_in_the_folder_of_a_run_is_not_executed(copied, capsys, monkeypatch):
    (copied / "evil.py").write_text(f"open({str(copied / 'done')!r}, 'w')")
    path = copied / "config.json"
    for where, env in ((copied.parent, f"{copied.name}.evil:X-v0"), (copied, "evil:X-v0"), (copied.parent, "run:X")):
        monkeypatch.chdir(where)
        path.write_text(json.dumps(json.loads(path.read_text()) | {"env": env, "dims": None, "horizon": None}))
        assert refused(capsys, "evaluate", copied)
        assert not (copied / "done").exists()


def test_a_disk_that_is_full_is_one_line(copied, capsys, monkeypatch):
    def full(arrays, file, header):
        file.write_bytes(bytes(100))
        raise checkpoint.SafetensorError("No space left on device")

    monkeypatch.setattr(checkpoint, "save_file", full)
    assert main(["resume", str(copied), "--steps", "800"]) == 2
    said = capsys.readouterr().err.splitlines()[-1]
    assert "state.safetensors: No space left on device; the run stopped, and what was saved remains" in said
    assert f"`vgcrl resume {copied}`, where it can be written" in said
    assert not list((copied / "checkpoints").glob(".*")), "a part of a checkpoint takes room"
    monkeypatch.undo()
    assert main(["resume", str(copied)]) == 0


def test_what_cannot_be_told_of_a_body_is_one_line_too(copied, capsys):
    """The engine that was chosen is said only when the run begins."""
    assert refused(capsys, "train", "--env", "HalfCheetah", "--out", copied)


def test_files_are_put_where_they_belong(tmp_path):
    path, link, pipe = (tmp_path / name for name in ("file", "link", "pipe"))
    link.symlink_to(path)
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    for target in (path, link, pipe):
        atomic_write(target, "text", follow=True)
    assert path.read_text() == "text"
    assert link.is_symlink()
    assert pipe.is_fifo()
    assert os.read(reader, 10) == b"text"
    os.close(reader)
    atomic_write(tmp_path / "new" / "folder" / "file", "text", follow=True)
    assert (tmp_path / "new" / "folder" / "file").read_text() == "text"
    assert {p.name for p in tmp_path.iterdir()} == {"file", "link", "pipe", "new"}
    with pytest.raises(OSError, match="nowhere/file'"):
        atomic_write(tmp_path / "nowhere" / "file", "text")


COUNTERS = {"step": 640, "iteration": 1, "wall": 0.0}
LAYOUT = {"layout": str(checkpoint.LAYOUT)}
CRAFTED = {
    "no counters": (LAYOUT, None),
    "odd counters": (LAYOUT | {"counters": "[]"}, None),
    "other numbers": (LAYOUT | {"counters": json.dumps(COUNTERS)}, np.float64),
}


@pytest.mark.parametrize("case", CRAFTED)
def test_a_crafted_checkpoint_is_no_traceback(case, copied, capsys):
    header, kind = CRAFTED[case]
    (copied / "policy.safetensors").unlink()  # which would be read instead
    header = header | {"config": (copied / "config.json").read_text()}
    newest = max(p for p in (copied / "checkpoints").iterdir())
    arrays = load_file(newest / "state.safetensors")
    save_file({k: x.astype(kind) if kind else x for k, x in arrays.items()}, newest / "state.safetensors", header)
    (newest / "sha256").write_text(hashlib.sha256((newest / "state.safetensors").read_bytes()).hexdigest())
    if kind:
        assert refused(capsys, "evaluate", copied)
    else:
        assert main(["evaluate", str(copied)]) == 0
        assert "damaged checkpoint skipped" in capsys.readouterr().err


@pytest.mark.parametrize("error", [RuntimeError("Unable to initialize backend 'cuda'\nand more"), AssertionError()])
def test_a_device_that_is_not_there_is_told_in_one_line(error, capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(jax, "devices", lambda: (_ for _ in ()).throw(error))
    monkeypatch.setenv("JAX_PLATFORMS", "cuda")
    assert main(["train", "--out", str(tmp_path / "run")]) == 2
    said = capsys.readouterr().err
    assert "JAX has no device to compute on: " in said
    assert "'cuda'" in said
    assert said.count("\n") == 1
    assert not list(tmp_path.iterdir())
    assert main(["list"]) == 0


def test_a_user_without_a_home(capsys, monkeypatch):
    monkeypatch.setattr(Path, "home", lambda: (_ for _ in ()).throw(RuntimeError("no home")))
    monkeypatch.delenv("JAX_COMPILATION_CACHE_DIR", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert main(["list", "envs"]) == 0


def test_a_nested_configuration_is_refused(copied, capsys):
    (copied / "config.json").write_text(100_000 * "[")
    assert refused(capsys, "evaluate", copied)


def test_a_checksum_that_is_no_text_is_a_damaged_checkpoint(copied, capsys):
    newest = max(p for p in (copied / "checkpoints").iterdir())
    (newest / "sha256").write_bytes(b"\xff\xfe")
    (copied / "policy.safetensors").unlink()  # which would be read instead
    assert main(["evaluate", str(copied), "--json"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["steps"] == 480
    assert "damaged checkpoint skipped" in err


def test_foreign_files_among_checkpoints_are_left_alone(copied, capsys):
    (copied / "checkpoints" / ".nfs0001").write_text("")
    assert main(["resume", str(copied), "--steps", "800"]) == 0
    assert (copied / "checkpoints" / ".nfs0001").exists()


def test_a_log_cut_off_by_a_kill_can_be_reported(copied, capsys):
    path = copied / "metrics.jsonl"
    path.write_text(path.read_text() + '{"step": 7')
    capsys.readouterr()
    assert main(["report", str(copied)]) == 0
    assert capsys.readouterr().out == f"report: {copied / 'report.html'}\n"
    path.write_text("{\n" + path.read_text())
    assert refused(capsys, "report", copied)
    path.unlink()
    assert refused(capsys, "report", copied)


def test_a_run_killed_in_its_first_checkpoint_starts_over(copied, capsys):
    program, runs, counters = trainer.restore(copied, print)
    policy_file.save(copied, 0, policy(program.config, runs), counters | {"step": 0}, config=program.config.to_json())
    shutil.rmtree(copied / "checkpoints")
    (copied / "checkpoints" / ".000000000000").mkdir(parents=True)
    assert main(["resume", str(copied)]) == 0


def test_what_a_kill_left_before_anything_was_written_is_free(tmp_path, capsys):
    out = tmp_path / "run"
    out.mkdir()
    (out / ".lock").touch()
    assert main(["train", "--out", str(out), *flags(steps=160)]) == 0


def test_places_that_cannot_be_written(trained, tmp_path, capsys):
    (tmp_path / "file").touch()
    assert refused(capsys, "report", trained, "--out", tmp_path / "file" / "x.html")
    assert refused(capsys, "report", trained, "--out", trained)
    assert refused(capsys, "train", "--out", tmp_path / (300 * "x"), *flags())


TARGETS = {
    "empty.npy": b"",
    "large.json": b"[[1" + 400 * b"0" + b",0,0,0]]",
    "deep.json": 100_000 * b"[",
    "long.csv": 140_000 * b"1",
    "huge.json": b"[[1e300,0,0,0]]",
    "words.json": b'[["a","b","c","d"]]',
}


@pytest.mark.parametrize("name", TARGETS)
def test_targets_that_are_none(name, trained, tmp_path, capsys):
    (tmp_path / name).write_bytes(TARGETS[name])
    assert refused(capsys, "evaluate", trained, "--targets", tmp_path / name)


@pytest.mark.parametrize("text", ["{", "{}", "[]"])
def test_a_result_that_is_none_cannot_be_reported(text, tmp_path, capsys):
    (tmp_path / "result.json").write_text(text)
    assert refused(capsys, "report", tmp_path)


INTERRUPTED = """
import signal, sys
from vgcrl.__main__ import main

class Finder:
    def find_spec(name, path, target=None):
        if name == "vgcrl.cli":
            signal.raise_signal(signal.SIGINT)

sys.meta_path.insert(0, Finder)
sys.argv = ["vgcrl", "list", "methods"]
sys.exit(main())
"""


def test_interrupted_while_it_is_being_imported():
    """There is nothing to lose yet: it ends at once, without a word."""
    done = subprocess.run([sys.executable, "-c", INTERRUPTED], capture_output=True, text=True)
    assert done.returncode in (-signal.SIGINT, 130)
    assert (done.stdout, done.stderr) == ("", "")


def test_a_backend_of_a_notebook_is_not_needed():
    """A notebook tells its programs of one that only its own Python has."""
    words = [sys.executable, "-m", "vgcrl", "list", "experiments"]
    env = os.environ | {"MPLBACKEND": "module://matplotlib_inline.backend_inline"}
    done = subprocess.run(words, env=env, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_damaged_programs_are_removed_from_the_cache(jax_as_it_was, monkeypatch, tmp_path):
    """JAX writes over none, and would warn of it at every run."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("JAX_COMPILATION_CACHE_DIR")
    monkeypatch.setattr(warnings, "showwarning", show := Mock())
    assert main(["list", "methods"]) == 0
    for name in ("jit_f-12-cache", "jit_f-12-atime", "jit_f2-12-cache"):
        (tmp_path / "vgcrl" / name).touch()
    warnings.warn("Error reading persistent compilation cache entry for 'jit_f': Error -5", stacklevel=1)
    show.assert_not_called()
    warnings.warn("something else", stacklevel=1)
    assert [path.name for path in (tmp_path / "vgcrl").iterdir()] == ["jit_f2-12-cache"]
    assert str(show.call_args.args[0]) == "something else"
