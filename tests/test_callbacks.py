"""What is asked of every evaluation on the command line: to stop, and to log to Weights & Biases."""

import json
import os
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import vgcrl
from foreign_envs import Ship
from test_foreign import one_line
from tiny import TINY, flags
from vgcrl.cli import main
from vgcrl.use.callbacks import Watch, stop_at
from vgcrl.use.wandb_log import numbers

pytestmark = pytest.mark.usefixtures("unrendered")


@pytest.mark.parametrize(
    ("text", "value", "stops"), [("F>=1", 1.0, True), (" F <= 0.5 ", 0.6, False), ("F>=1", None, False)]
)
def test_a_bound_as_text(text, value, stops):
    assert stop_at(text)({"step": 160, "mean": {"F": value}}) is stops


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("F>1", ("not understood", "METRIC>=X")),
        ("F>=much", ("'much' is no number",)),
        ("F>=nan", ("'nan' is no number",)),
        (5, ("not understood",)),
        ("G>=1", ("'G' is unknown", "lgr_z")),
    ],
)
def test_bounds_that_make_no_sense(text, words):
    one_line(lambda: stop_at(text), "--stop-when", *words)


def test_a_command_stops_where_it_is_told_and_can_go_on(tmp_path, capsys):
    run = tmp_path / "run"
    assert main(["train", "--out", str(run), "--stop-when", "F>=-1000", *flags()]) == 0
    assert "stopped and saved, as --stop-when asks; continue with: vgcrl resume" in capsys.readouterr().err
    assert [json.loads(line)["step"] for line in (run / "metrics.jsonl").open()] == [0, 160]
    assert (run / "report.html").exists()
    assert main(["resume", str(run), "--stop-when", "F>=1000", "--steps", "320"]) == 0
    assert [json.loads(line)["step"] for line in (run / "metrics.jsonl").open()] == [0, 160, 320]
    assert main(["resume", str(run), "--steps", "640"]) == 0
    assert json.loads((run / "metrics.jsonl").read_text().splitlines()[-1])["step"] == 640


def test_where_a_bound_holds_already_nothing_is_trained(tmp_path, capsys):
    stop, seen = vgcrl.stop_when("F", at_least=-1000), []
    run = vgcrl.train("diayn", out=tmp_path / "run", callback=stop, **TINY)
    before = {path: path.read_bytes() for path in run.dir.rglob("*") if path.is_file()}
    again = vgcrl.resume(run.dir, callback=stop)
    assert (again.last["step"], again.interrupted) == (160, True)
    assert vgcrl.resume(run.dir, callback=seen.append, stop_when="F>=-1000").last == again.last
    assert main(["resume", str(run.dir), "--stop-when", "F<=1000"]) == 0
    said = capsys.readouterr().err
    assert said.count("the bound to stop at was reached at step 160: nothing is trained\n") == 3
    assert "stopped and saved, as --stop-when asks; continue with: vgcrl resume" in said
    assert seen == [], "callbacks of one's own are called at evaluations"
    after = {path: path.read_bytes() for path in run.dir.rglob("*") if path.is_file()}
    assert after == before | {path: after[path] for path in after if path.suffix == ".html"}


def test_nothing_is_written_for_a_bound_that_makes_no_sense(tmp_path, capsys):
    assert main(["train", "--out", str(tmp_path / "run"), "--stop-when", "speed>=1"]) == 2
    assert "vgcrl: --stop-when 'speed' is unknown" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_without_wandb(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "wandb", None)
    assert main(["train", "--out", str(tmp_path / "run"), "--wandb", "project"]) == 2
    assert "--wandb needs wandb; valid: pip install" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_wandb_without_a_login(tmp_path, capsys, monkeypatch):
    settings = SimpleNamespace(settings=SimpleNamespace(mode="online"))
    wandb = SimpleNamespace(setup=lambda: settings, api=SimpleNamespace(api_key=None))
    monkeypatch.setitem(sys.modules, "wandb", wandb)
    assert main(["train", "--out", str(tmp_path / "run"), "--wandb", "project"]) == 2
    assert (
        capsys.readouterr().err == "vgcrl: --wandb needs a login; valid: `wandb login` first, or WANDB_MODE=offline\n"
    )
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("answer", "stops"), [(True, True), (np.True_, True), (1, False), ({"a": 1}, False), (None, False)]
)
def test_true_stops_and_nothing_else(answer, stops):
    assert Watch(lambda record: answer)({}) is stops


def test_each_callback_has_a_record_of_its_own():
    record, seen = {"step": 0, "mean": {"F": 1.0}}, []

    def spoil(given):
        given["mean"].clear()
        given.clear()

    Watch(spoil, seen.append)(record)
    assert seen == [record] == [{"step": 0, "mean": {"F": 1.0}}]


@pytest.mark.parametrize("bound", ["1", True, float("nan"), [1.0]])
def test_a_bound_is_a_number(bound):
    one_line(lambda: vgcrl.stop_when("F", at_least=bound), f"the bound {bound!r} is no number; valid: a number")
    one_line(lambda: vgcrl.stop_when("F", at_most=bound), f"the bound {bound!r} is no number")
    assert vgcrl.stop_when("F", at_least=np.float32(1))({"step": 160, "mean": {"F": 1.0}})


def test_what_is_no_callback_is_noticed_before_training(tmp_path):
    one_line(lambda: vgcrl.train(out=tmp_path / "run", callback=5), "callback is a int")
    assert not (tmp_path / "run").exists()


def test_wandb_without_the_network(tmp_path, monkeypatch):
    """A run written offline, read back by the library's own reader: every evaluation with every number."""
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_DIR", str(tmp_path))
    monkeypatch.setenv("WANDB_SILENT", "true")
    run = vgcrl.train("diayn", out=tmp_path / "run", wandb="door", **TINY)
    (file,) = tmp_path.glob("wandb/offline-run-*/run-*.wandb")
    lines = history(file)
    assert [line["_step"] for line in lines] == [line["step"] for line in run.metrics]
    for line, record in zip(lines, run.metrics, strict=True):
        told = numbers(record, run.config)
        assert {name: line[name] for name in told} == pytest.approx(told)
        assert {"F", "seed-0/F", "seed-1/train/critic_loss"} <= told.keys()


def history(file):
    """Lines of an offline run, once the process that writes it has written its end."""
    for _ in range(6000):
        kinds, lines = records(file)
        if "exit" in kinds:
            return lines
        time.sleep(0.1)
    raise AssertionError(f"no end in {file}, only {kinds}")


def records(file):
    """Kinds of all that is in an offline run so far, and its lines of history."""
    from wandb.proto import wandb_internal_pb2
    from wandb.sdk.internal.datastore import DataStore

    store = DataStore()
    store.open_for_scan(str(file))
    kinds, lines = [], []
    while (data := store.scan_data()) is not None:
        record = wandb_internal_pb2.Record()
        record.ParseFromString(data)
        kinds.append(record.WhichOneof("record_type"))
        if kinds[-1] == "history":
            items = record.history.item
            lines.append({item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in items})
    return kinds, lines


def test_nothing_stops_before_it_was_trained():
    stop = vgcrl.stop_when("lgr_s", at_most=5)
    assert stop({"step": 0, "mean": {"lgr_s": 1.0}}) is False
    assert stop({"step": 10, "mean": {"lgr_s": 1.0}}) is True
    assert stop({"step": 10, "mean": {}}) is False, "an evaluation of an older version"


def test_a_metric_that_an_environment_has_not_is_refused(tmp_path, capsys):
    """Before anything is written."""
    assert main(["train", "--stop-when", "coverage>=1", "--out", str(tmp_path / "run"), *flags()]) == 2
    assert "--stop-when 'coverage' is unknown" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()
    stop = vgcrl.stop_when("env_success", at_least=1.0)
    one_line(lambda: vgcrl.train(callback=stop, out=tmp_path / "run"), "stop_when 'env_success' is unknown; valid: F, ")
    assert not (tmp_path / "run").exists()
    one_line(lambda: vgcrl.stop_when("lgrz", at_least=1.0), "stop_when 'lgrz' is unknown", "did you mean")
    one_line(lambda: vgcrl.stop_when(3, at_least=1.0), "stop_when 3 is unknown; valid: F, ")


def test_success_that_a_goal_environment_does_not_tell_is_refused(tmp_path, capsys):
    """It is known after the first episodes; nothing is left, so that the same folder can be used."""
    words = ["gcrl", "--env", "foreign_envs:Reach", "--env-arg", "tells=nothing", "--horizon", "5", *flags(seeds=1)]
    assert main(["train", *words, "--out", str(tmp_path / "run"), "--stop-when", "env_success>=0.5"]) == 2
    *_, said = capsys.readouterr().err.splitlines()
    assert "--stop-when 'env_success': this environment does not tell it; valid: F, " in said
    assert [path.name for path in (tmp_path / "run").iterdir()] == [".lock"]


class Wanderer(Ship):
    """An environment that changes the current folder whenever it can, to the one beside the run."""

    def reset(self, *, seed=None, options=None):
        os.chdir(Path("../elsewhere").resolve())
        return super().reset(seed=seed, options=options)


def test_an_environment_may_change_the_current_folder(tmp_path, monkeypatch):
    for name in ("here", "elsewhere"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "here")
    run = vgcrl.train("diayn", env=Wanderer, horizon=6, **TINY | {"out": "run", "steps": 320, "seeds": 1})
    assert run.dir == tmp_path / "here" / "run"
    assert run.metrics[-1]["step"] == 320
    assert not any((tmp_path / "elsewhere").iterdir())


def test_a_callback_may_change_the_current_folder(tmp_path, monkeypatch):
    """The run stays where it was begun, and is found there."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(tmp_path)
    options = TINY | {"out": "run", "steps": 320}
    run = vgcrl.train("diayn", **options, callback=lambda record: os.chdir(elsewhere))
    assert Path.cwd() == elsewhere
    assert not any(elsewhere.iterdir())
    assert [line["step"] for line in run.metrics] == [0, 160, 320]
    assert run.dir == tmp_path / "run"
    os.chdir(tmp_path)
    again = vgcrl.resume("run", 480, callback=lambda record: os.chdir(elsewhere))
    assert again.metrics[-1]["step"] == 480
    assert not any(elsewhere.iterdir())


def test_a_folder_is_named_as_the_user_did(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert vgcrl.train("diayn", **TINY | {"out": "run", "steps": 160}).dir == Path("run")
