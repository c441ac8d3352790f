"""Event files as TensorBoard reads them, and lines cut off by a kill."""

import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.backend.event_processing.event_file_loader import EventFileLoader

import vgcrl
from tiny import TINY
from vgcrl.errors import UsageError
from vgcrl.training import checkpoint, display
from vgcrl.training.display import Display
from vgcrl.training.events import Events
from vgcrl.training.logs import append_line, read_lines, to_json, truncate_lines
from vgcrl.training.options import Options
from vgcrl.training.resolve import resolve
from vgcrl.training.run_logs import series

pytestmark = pytest.mark.usefixtures("unrendered")

NUMBERS = {"F": 1.0, "log_q": None, "lgr_z": 0, "lgr_s": 0.5}
ROW = NUMBERS | {"seed": 0, "train": {"F": 0.0}, "posterior": {}}
REST = {"seeds": [ROW], "mean": NUMBERS, "ci95": dict.fromkeys(NUMBERS)}


def test_tensorboard_reads_what_we_write(tmp_path):
    events = Events(tmp_path)
    written = {(step, "F"): step / 7 for step in (0, 1, 127, 128, 3_000_000_000)}
    for (step, name), value in written.items():
        events.scalars(step, {name: value, "lgr_z": 0.5})
    events.close()
    (path,) = tmp_path.iterdir()
    read = {}
    for event in EventFileLoader(str(path)).Load():
        for value in event.summary.value:
            read[event.step, value.tag] = value.tensor.float_val[0] if value.tensor.float_val else value.simple_value
    for key, value in written.items():
        assert abs(read[key] - value) <= 1e-6 * max(1, abs(value))
    assert len(read) == 2 * len(written)


def test_lines_after_a_checkpoint_are_dropped(tmp_path):
    path = tmp_path / "metrics.jsonl"
    for step in (0, 10, 20):
        append_line(path, {"step": step, **REST})
    with path.open("ab") as file:
        file.write(b'{"step": 3\xff')
    truncate_lines(path, 10)
    assert read_lines(path) == [{"step": 0, **REST}, {"step": 10, **REST}]


@pytest.mark.parametrize(
    "line",
    [
        *(b"junk", b"\xff\xfe", b"{}", b"5", b"null", b'{"step": 99}', b'{"step": null}'),
        *(
            to_json({"step": 5, **REST} | change).encode()
            for change in (
                {"step": "5"},
                {"seeds": []},
                {"seeds": 3},
                {"seeds": [{"F": 1.0}]},
                {"seeds": [ROW | {"F": "x"}]},
                {"mean": {}},
                {"mean": "F log_q lgr_z lgr_s"},
                {"mean": NUMBERS | {"lgr_z": [1.0]}},
            )
        ),
    ],
)
def test_a_damaged_line_is_named_and_nothing_dropped(tmp_path, line):
    path = tmp_path / "metrics.jsonl"
    append_line(path, {"step": 0, **REST})
    path.write_bytes(path.read_bytes() + line + b"\n")
    append_line(path, {"step": 10, **REST})
    before = path.read_bytes()
    for use in (read_lines, lambda path: truncate_lines(path, 10)):
        with pytest.raises(UsageError, match=r"metrics.jsonl is damaged"):
            use(path)
    assert path.read_bytes() == before


def test_json_is_strict():
    assert to_json({"a": [float("nan"), 1.0, {"b": float("inf")}]}) == '{"a": [null, 1.0, {"b": null}]}'


def test_a_last_iteration_past_the_end_leaves_no_negative_time(capsys):
    with Display("diayn", 2000) as display:
        display.advance(2048, 100.0)
        display.evaluated(1000, {"F": 1.0, "lgr_z": 0.5})
        display.evaluated(2048, {"F": 1.0, "lgr_z": 0.5})
    first, last = capsys.readouterr().err.splitlines()
    assert " 10 s left" in first
    assert " 0 s left" in last


def test_where_there_is_no_terminal_a_line_is_printed_each_minute(capsys, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(display, "time", SimpleNamespace(monotonic=lambda: now[0]))
    for quiet in (False, True):
        shown = Display("diayn", 2000, quiet)
        shown.evaluated(0, {"F": 1.0, "lgr_z": 0.5})
        capsys.readouterr()
        for step in (500, 1000, 1500):
            now[0] += 40
            shown.advance(step, 10.0, collecting=step < 1500)
        line = "step     1,000       10 steps/s per run    100 s left  collecting random steps\n"
        assert capsys.readouterr().err == ("" if quiet else line)


def scalars(folder):
    """(step, tag) -> value of the event file in a folder."""
    (path,) = (p for p in folder.iterdir() if p.is_file())
    values = ((event.step, value) for event in EventFileLoader(str(path)).Load() for value in event.summary.value)
    return {
        (step, v.tag): v.tensor.float_val[0] if v.tensor.float_val else v.simple_value for step, v in values if v.tag
    }


@pytest.mark.slow
def test_every_run_has_its_own_series(tmp_path):
    run = vgcrl.train("diayn", out=tmp_path / "run", log_every=80, **TINY | {"seeds": 2, "steps": 320})
    events = run.dir / "events"
    mean, first, second = (scalars(events / name) for name in ("", "seed-0", "seed-1"))
    for key in ((320, "F"), (320, "train/critic_loss"), (240, "train/alpha"), (160, "train/entropy")):
        assert mean[key] == pytest.approx((first[key] + second[key]) / 2, rel=1e-5)
    assert first[320, "F"] == pytest.approx(run.last["seeds"][0]["F"], rel=1e-5)
    assert second[320, "train/critic_loss"] == pytest.approx(run.last["seeds"][1]["train"]["critic_loss"], rel=1e-5)
    assert {step for step, tag in first if tag == "train/F"} == {80, 160, 240, 320}
    assert {step for step, tag in first if tag == "F"} == {0, 160, 320}


@pytest.mark.parametrize("kept", [480, 0, None], ids=["later", "at the start", "nothing"])
def test_what_a_resumed_run_has_lost_is_not_shown(kept, trained, tmp_path):
    """Nor anything twice; what was logged up to the checkpoint stays."""
    run = Path(shutil.copytree(trained, tmp_path / "run"))
    if kept is None:  # killed before anything was saved
        shutil.rmtree(run / "checkpoints")
        (run / "metrics.jsonl").unlink()
        (run / "policy.safetensors").unlink()
    elif kept == 0:
        vgcrl.train("diayn", out=tmp_path / "start", **TINY, callback=lambda record: True)
        shutil.rmtree(run / "checkpoints")
        (tmp_path / "start" / "checkpoints").rename(run / "checkpoints")
    else:
        newest, older = checkpoint.saved(run)
        shutil.rmtree(newest)
        assert int(older.name) == kept
    lost = Events(run / "events")  # where the run had gone on from there
    lost.scalars(800, {"F": 7.0, "train/F": 7.0})
    lost.close()
    resumed = vgcrl.resume(run)
    for name in ("", "seed-0", "seed-1"):
        shown = EventAccumulator(str(run / "events" / name)).Reload()
        rows = [line["mean"] if not name else line["seeds"][int(name[-1])] for line in resumed.metrics]
        found = [(event.step, event.value) for event in shown.Scalars("F")]
        assert found == [
            (line["step"], pytest.approx(row["F"])) for line, row in zip(resumed.metrics, rows, strict=True)
        ]
        assert [event.step for event in shown.Scalars("train/F")] == [160, 320, 480, 640]


def test_names_of_series():
    assert series(resolve(Options(seeds=2, seed=3))) == ["seed-3", "seed-4"]
    swept = resolve(Options(seeds=1, spectral_norm=(0.5, 2.0)))
    assert series(swept) == ["spectral_norm-0.5-seed-0", "spectral_norm-2-seed-0"]


def test_values_that_are_nearly_the_same_have_names_that_differ():
    """Else two runs have one series in TensorBoard, and two columns of a report one head."""
    seeds = resolve(Options("vgcrl", "projected-pointmass", seeds=1, projection_seed=(2147483646, 2147483647)))
    rates = resolve(Options(seeds=1, learning_rate=(1e-3, 1.0000002e-3)))
    for config in (seeds, rates):
        names = [*series(config), *config.setting_names, config.named_run(0), config.named_run(1)]
        assert len(set(names)) == 6
