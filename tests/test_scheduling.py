"""Scheduling without a cluster: the executor here, the process of a program, storage, view, simulation."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from rich.console import Console

import stub_program
from vgcrl.envs import Broken
from vgcrl.errors import UsageError
from vgcrl.experiments.scheduling import Task, carried_out, here, simulation, worker
from vgcrl.experiments.scheduling.simulation import Conditions, Program, simulate
from vgcrl.experiments.scheduling.view import View
from vgcrl.training.display import Display


def task(name, error=None):
    def make():
        made.append(name)
        if error:
            raise error

    made = []
    return Task(name, make, ()), made


@pytest.mark.parametrize("error", [UsageError("no"), Broken("no")])
def test_here_one_that_fails_does_not_stop_the_next(error, tmp_path):
    (broken, _), (sound, made) = task("broken", error), task("sound")
    said = []
    assert here([broken, sound], tmp_path, said.append) == ["broken: no"] == said
    assert made == ["sound"]


def test_what_failed_before_a_stop_is_told(tmp_path):
    tasks = [task("broken", UsageError("no"))[0], task("stopped", KeyboardInterrupt())[0]]
    assert carried_out(lambda: here(tasks, tmp_path, print), tmp_path, print) == (["broken: no"], True)


def test_here_a_stop_is_not_a_failure(tmp_path):
    (stopped, _), (sound, made) = task("stopped", KeyboardInterrupt()), task("sound")
    with pytest.raises(KeyboardInterrupt):
        here([stopped, sound], tmp_path, print)
    assert not made


def test_time_that_is_spent_is_told_from_a_stop():
    said, folder = [], Path("out/x")
    assert carried_out(lambda: ["a: no"], folder, said.append) == (["a: no"], False)
    assert not said
    assert carried_out(lambda: time.sleep(60), folder, said.append, 0.001) == ([], False)
    assert carried_out(lambda: signal.raise_signal(signal.SIGINT), folder, said.append, 60) == ([], True)
    assert said == 2 * ["stopped and saved; the same command continues in out/x"]
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def child(tmp_path, mode):
    path = Path(worker.installed() / worker.CHILD)
    command = [sys.executable, "-P", str(path), "stub_program", mode, "a", "--out", str(tmp_path)]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parent)}
    return subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, env=environment, text=True)


def test_a_program_ends_with_whoever_started_it(tmp_path):
    process = child(tmp_path, "waits")
    for _ in range(3):
        assert "step" in process.stderr.readline()
    process.stdin.close()
    assert process.wait(600) == worker.ORPHANED
    assert stub_program.lines(tmp_path / "stubs/runs/a/steps") == list("123")


@pytest.mark.parametrize(("mode", "code"), [("runs", 0), ("fails", 2), ("killed", -signal.SIGKILL)])
def test_a_program_ends_as_its_command_does(tmp_path, mode, code):
    process = child(tmp_path, mode)
    process.stderr.read()
    assert process.wait(600) == code


def test_a_share_of_a_gpu_is_a_share_of_its_memory(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3")  # as Ray sets it

    def given(gpus):
        return worker.environment(worker.Order("a", "vgcrl", (), "", None, gpus, {"XLA_FLAGS": "--x"}))

    assert given(0.5)["XLA_PYTHON_CLIENT_MEM_FRACTION"] == "0.450"
    assert "XLA_PYTHON_CLIENT_MEM_FRACTION" not in given(1.0)
    assert given(0.0)["JAX_PLATFORMS"] == "cpu"
    assert given(1.0).get("JAX_PLATFORMS") == os.environ.get("JAX_PLATFORMS")
    assert {given(gpus)["CUDA_VISIBLE_DEVICES"] for gpus in (0.0, 0.5, 1.0)} == {"3"}
    assert given(1.0)["XLA_FLAGS"] == "--x"


def test_progress_is_read_off_the_line_that_training_prints(capsys):
    display = Display("diayn", 100_000)
    display.advance(25_000, 1234.0)
    display.evaluated(25_000, {"F": 1.0, "lgr_z": 0.5})
    found = worker.PROGRESS.search(capsys.readouterr().err)
    assert found.groups() == ("25,000", "1,234", "61")


def test_the_view_tells_of_every_change_once():
    said = []
    view = View("ab", said.append)
    with view:
        view.update([("a", {"node": "host"}), ("a", {"steps": 1000, "steps_per_second": 50, "seconds_left": 9})])
        console = Console(width=120)
        with console.capture() as shown:
            console.print(view.table())
        view.update([("a", {"node": "other"})])
        view.ended("a", "failed", "no")
        view.update([("a", {"steps": 2000})])  # heard of late
        view.ended("b", "done", "")
    ends = ["[1/2] a: failed: no", "[2/2] b: done"]
    assert said == ["a: runs on host", "a: runs on other again, from its last checkpoint", *ends]
    a, b = [line for line in shown.get().splitlines() if " runs " in line or " waits " in line]
    assert all(word in a for word in ("host", "1,000", "50", " 9 "))
    assert "waits" in b


def hours(*lengths):
    return [Program(str(i), 1, 3600.0 * x) for i, x in enumerate(lengths)]


def test_the_longest_start_first():
    free = Conditions(start=0.0)
    assert simulate(hours(1, 2, 1, 2), 2, free).seconds == 3 * 3600
    assert simulate(hours(1, 1, 1, 3), 2, free).seconds == 3 * 3600
    assert simulate(hours(1, 1), 8, free).busy == 0.25
    assert simulate(hours(1, 1), 1, Conditions(start=60.0)).seconds == 2 * 3660


def test_a_failure_costs_what_was_not_saved_and_the_way_back():
    """A rate of 1 in an hour on a program of 20 hours: every loss is at most a checkpoint, a start and a repair."""
    given = Conditions(failures=1.0, checkpoint=600.0, start=60.0, noticed=30.0, repair=300.0)
    found = simulate(hours(20), 1, given)
    most = 600 + 60 + 300
    assert found.failures > 5
    assert 20 * 3600 + 60 + found.failures * 360 <= found.seconds <= 20 * 3600 + 60 + found.failures * most
    assert simulate(hours(20), 2, given).seconds < found.seconds, "on another GPU nothing waits for the repair"


def test_the_committed_speeds_are_those_of_the_whole_paper():
    programs = simulation.read_programs(Path(__file__).parents[1] / "results")
    with_five_seeds = 2 + 2 + 3 * 4  # rows of Humanoid-G200 and -G1000, and of G5-gaussian of all three robots
    assert sum(program.runs for program in programs) == 126 * 3 + with_five_seeds * 2
    assert len({program.name for program in programs}) == 51


RESULTS = str(Path(__file__).parents[1] / "results")
BAD = {
    "no GPU": (["--gpus", "0"], "'0' is not valid; valid: integers from 1 to 65536"),
    "GPUs in words": (["--gpus", "x"], "'x' is not valid"),
    "a comma too many": (["--gpus", "1,"], "'1,' is not valid"),
    "all GPUs there are": (["--gpus", "8,99999999999"], "'8,99999999999' is not valid"),
    "failures that mend": (["--failures", "-1"], "--failures -1.0 is out of range; valid: a finite number from 0"),
    "failures that are none": (["--failures", "nan"], "--failures nan is out of range"),
    "nothing but failures": (["--failures", "inf"], "--failures inf is out of range"),
    "too many failures": (["--failures", "11"], "--failures 11.0 is out of range; valid: up to 10 per GPU and hour"),
    "a start that never ends": (["--failures", "1", "--start", "1e5"], "hardly a program would come to a checkpoint"),
    "no checkpoint": (["--checkpoint", "0"], "--checkpoint 0.0 is out of range; valid: a positive number"),
    "back before it left": (["--repair", "-600"], "--repair -600.0 is out of range"),
    "no repair": (["--repair", "inf"], "--repair inf is out of range"),
}


def simulated(monkeypatch, *words):
    monkeypatch.setattr(sys, "argv", ["simulation", *words])
    simulation.main()


@pytest.mark.parametrize("wrong", BAD)
def test_a_simulation_that_makes_no_sense_is_one_line(wrong, monkeypatch, capsys):
    monkeypatch.setattr(simulation, "simulate", None)
    words, said = BAD[wrong]
    with pytest.raises(SystemExit, match="2"):
        simulated(monkeypatch, RESULTS, *words)
    found = capsys.readouterr()
    assert said in found.err.splitlines()[-1]
    assert not found.out


def test_a_folder_without_programs_is_told(monkeypatch, capsys, tmp_path):
    with pytest.raises(SystemExit, match="2"):
        simulated(monkeypatch, str(tmp_path))
    assert f"{tmp_path} has no programs; valid: a folder with" in capsys.readouterr().err.splitlines()[-1]


def test_a_simulation_has_a_row_for_each_number_of_gpus(monkeypatch, capsys):
    simulated(monkeypatch, RESULTS, "--gpus", "1,8", "--failures", "0.01", "--start", "0", "--repair", "0")
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()[-2:]] == ["1", "8"]


fsspec = pytest.importorskip("fsspec")
from vgcrl.experiments.scheduling.storage import Mirror, fault, probe  # noqa: E402


def unknown_to_fsspec(url):
    raise ImportError("no package for it")


@pytest.fixture(params=["file", "memory", "pyarrow"])
def url(request, tmp_path, monkeypatch):
    """Of fsspec's file systems two, and one of pyarrow's."""
    if request.param == "pyarrow":
        monkeypatch.setattr(fsspec.core, "url_to_fs", unknown_to_fsspec)
    yield f"memory://{tmp_path.name}" if request.param == "memory" else f"file://{tmp_path}/there"
    fsspec.filesystem("memory").store.clear()


def write(folder, files):
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def tree(folder):
    return {p.relative_to(folder).as_posix(): p.read_text() for p in folder.rglob("*") if p.is_file()}


FILES = {
    "runs/a/config.json": "c",
    "runs/a/metrics.jsonl": "1",
    "runs/a/checkpoints/000/state.safetensors": "s0",
    "runs/a/checkpoints/000/sha256": "h0",
}


def test_files_of_a_program_follow_it_to_another_node(url, tmp_path):
    one, other = tmp_path / "one", tmp_path / "other"
    mirror = Mirror(url, one, "a")
    write(one, FILES | {"runs/a/.lock": "", "runs/b/config.json": "not a's", "cells/ab.json": "not a's"})
    mirror.push()
    (one / "runs/a/checkpoints/000").rename(one / "runs/a/checkpoints/001")
    write(one, {"runs/a/metrics.jsonl": "12", "cells/a.json": "cell", "cells/a.best.png": "png"})
    mirror.push()
    Mirror(url, other, "a").pull()
    moved = {k.replace("/000/", "/001/"): v for k, v in FILES.items()}
    assert tree(other) == moved | {"runs/a/metrics.jsonl": "12", "cells/a.json": "cell", "cells/a.best.png": "png"}
    Mirror(url, tmp_path / "small", "a").pull(whole=False)
    assert not list((tmp_path / "small").rglob("checkpoints"))


def test_a_probe_says_who_reaches_a_place(url, tmp_path):
    with probe(url) as left:
        assert fault(url, left) == ""
    assert fault(url, left)
    (tmp_path / "file").touch()
    assert fault(f"file://{tmp_path}/file", str(tmp_path / "file"))
    with pytest.raises(OSError, match=r"file|exists"), probe(f"file://{tmp_path}/file"):
        pass


def test_nothing_is_sent_twice(url, tmp_path, monkeypatch):
    write(tmp_path / "one", FILES)
    sent, original = [], Mirror._send
    monkeypatch.setattr(Mirror, "_send", lambda self, path: (sent.append(path), original(self, path)))
    mirror = Mirror(url, tmp_path / "one", "a")
    mirror.push()
    mirror.push()
    assert len(sent) == len(FILES)
    assert sent[-1].endswith("sha256"), "a checkpoint counts when it is whole"
    assert sent.index("runs/a/metrics.jsonl") < 2, "the log is never behind a checkpoint"
