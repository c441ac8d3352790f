"""Damaged, edited and crafted folders: nothing outside is written, nothing executed, and nothing passes unnoticed."""

import contextlib
import io
import json
import os
import shutil
import signal
import sys
from importlib.machinery import all_suffixes
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import vgcrl
from tiny import flags
from vgcrl import cli
from vgcrl.cli import main
from vgcrl.envs import Broken, gymnasium_pool, modules
from vgcrl.envs.contract import broken
from vgcrl.envs.gymnasium_engine import Foreign
from vgcrl.errors import UsageError
from vgcrl.experiments.result_page import read_page
from vgcrl.experiments.scheduling.view import View
from vgcrl.files import atomic_write, make_folder, open_to_read
from vgcrl.show.report import Page, write
from vgcrl.training import checkpoint, loop, policy_file, run_folder, trainer
from vgcrl.training.display import Display
from vgcrl.training.events import Events
from vgcrl.training.logs import append_line, read_lines, truncate_lines

pytestmark = pytest.mark.usefixtures("unrendered")

COUNTERS = {"iteration": 1, "wall": 0.0}
STATE = {"a": np.zeros(3, np.float32)}


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    out = tmp_path_factory.mktemp("attacked") / "run"
    with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
        assert main(["train", "--out", str(out), *flags(steps=320)]) == 0
    return out


@pytest.fixture
def run(original, tmp_path):
    return shutil.copytree(original, tmp_path / "run")


@pytest.fixture(scope="module")
def program(original):
    """Its functions, and the shapes of its state."""
    return trainer.restore(original, print)[0]


def refused(capsys, *words):
    """In one line, with exit code 2; what it says."""
    capsys.readouterr()
    assert main([str(word) for word in words]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1, said
    assert said.startswith("vgcrl: ")
    return said


def edit(run, **changes):
    path = run / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def enter(context):
    with context:
        pass


WRITERS = {
    ".lock": lambda run: enter(run_folder.locked(run)),
    "config.json": lambda run: run_folder.write_config(run, run_folder.read_config(run)),
    "metrics.jsonl": lambda run: append_line(run / "metrics.jsonl", {"step": 1}),
    "metrics.jsonl ": lambda run: truncate_lines(run / "metrics.jsonl", 0),
    "policy.safetensors": lambda run: policy_file.save(run, 1, STATE, COUNTERS, config="{}"),
    "checkpoints": lambda run: checkpoint.save(run, 1, STATE, COUNTERS, {}, config="{}"),
    "events": lambda run: Events(run / "events"),
    "error.txt": lambda run: run_folder.write_error(run, broken("env", ValueError("x"))),
    "report.html": lambda run: write([Page("title", "", [], "")], run / "report.html"),
}


@pytest.mark.parametrize("name", WRITERS)
def test_nothing_is_written_through_a_link(name, run, tmp_path):
    inside, outside = run / name.strip(), tmp_path / "precious"
    if inside.is_dir():
        shutil.move(inside, outside)
    else:
        outside.write_bytes(inside.read_bytes() if inside.exists() else b"precious")
        if name == "config.json":
            outside.write_text(outside.read_text() + " ")  # so that it would be written again
        inside.unlink(missing_ok=True)
    inside.symlink_to(outside)
    before = sorted(p.read_bytes() if p.is_file() else b"" for p in (outside, *outside.rglob("*")))
    with pytest.raises(UsageError, match="is a link, which nothing is written through"):
        WRITERS[name](run)
    assert before == sorted(p.read_bytes() if p.is_file() else b"" for p in (outside, *outside.rglob("*")))


def test_a_file_with_two_names_is_not_appended_to(run, tmp_path):
    os.link(run / "metrics.jsonl", tmp_path / "backup")
    with pytest.raises(UsageError, match="has another name"):
        append_line(run / "metrics.jsonl", {"step": 1})


def test_a_link_among_checkpoints_is_none(run, tmp_path):
    shutil.move(run / "checkpoints" / "000000000320", tmp_path / "elsewhere")
    (run / "checkpoints" / "000000000320").symlink_to(tmp_path / "elsewhere")
    (run / "checkpoints" / "²").mkdir()  # a digit that is no number
    assert [path.name for path in checkpoint.saved(run)] == ["000000000160"]
    checkpoint.save(run, 320, STATE, COUNTERS, {}, config="{}")
    assert (tmp_path / "elsewhere" / "sha256").exists()
    assert not (run / "checkpoints" / "000000000320").is_symlink()


# Where code may lie, and what config.json then calls it: in the run, around it, or behind a link.
CODE = {
    "evil.py": "evil:X-v0",
    "run/evil.py": "run.evil:X-v0",
    "run/__init__.py": "run.nothing:X-v0",
    "above/__init__.py": "above.run:X-v0",
    "run/deep/er/evil.py": "run.deep.er.evil:X-v0",
}


@pytest.mark.parametrize("named", [False, True], ids=["", "PYTHONPATH"])
@pytest.mark.parametrize("place", CODE)
def test_no_code_is_executed_because_a_run_names_it(place, named, run, capsys, monkeypatch, tmp_path):
    """Not where the user stands, and that of the run itself not even where PYTHONPATH says that modules are."""
    path = tmp_path / place
    if named and path.parent == tmp_path:
        pytest.skip("the user has named it")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"open({str(tmp_path / 'done')!r}, 'w')")
    monkeypatch.chdir(tmp_path)
    if named:
        monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.syspath_prepend(str(tmp_path))
    edit(run, env=CODE[place], dims=None, horizon=None, engine="gymnasium", workers=0)
    for command in ("evaluate", "resume", "report"):
        refused(capsys, command, run)
    assert not (tmp_path / "done").exists() or (named and place.startswith("above"))
    assert not any(name.split(".")[0] in ("evil", "run") for name in sys.modules)


def test_a_module_is_imported_where_the_user_names_it(run, capsys, monkeypatch, tmp_path):
    (tmp_path / "boats.py").write_text((Path(__file__).parent.parent / "examples" / "own_environment.py").read_text())
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", sys.path[:])
    edit(run, env="boats:Boat-v0", dims=None, horizon=50, engine="gymnasium", workers=0)
    with pytest.raises(UsageError, match="--import boats"):
        run_folder.checked_config(run)
    modules.import_named("boats", "--import")
    assert run_folder.checked_config(run).env == "boats:Boat-v0"
    assert "'nowhere' cannot be imported" in refused(capsys, "evaluate", run, "--import", "nowhere")


@pytest.fixture
def beside_its_module(run, monkeypatch, tmp_path):
    """A run folder named as the module of its environment, which is beside it and on PYTHONPATH."""
    example = Path(__file__).parent.parent / "examples" / "own_environment.py"
    shutil.copy(example, tmp_path / "boats.py")
    folder = run.rename(tmp_path / "boats")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "boats", raising=False)
    edit(folder, env="boats:Boat-v0", dims=None, horizon=50, engine="gymnasium", workers=0)
    yield folder
    sys.modules.pop("boats", None)


def test_a_run_may_have_the_name_of_its_module(beside_its_module):
    assert run_folder.checked_config(beside_its_module).env == "boats:Boat-v0"


@pytest.mark.parametrize("suffix", all_suffixes())
def test_a_run_that_is_a_package_is_not_executed(suffix, beside_its_module, capsys):
    """It would be imported in place of the module beside it, whatever its code was compiled to."""
    (beside_its_module / f"__init__{suffix}").write_bytes(b"")
    assert "code in the same folder, which is not executed" in refused(capsys, "evaluate", beside_its_module)
    assert "boats" not in sys.modules


@pytest.mark.parametrize(
    "place", ["evil.py", "evil/__init__.py", "evil/__init__.pyc", "deep/evil.py", "to/__init__.py"]
)
def test_a_run_without_init_may_be_a_namespace_of_code(place, beside_its_module, capsys, tmp_path):
    """Once there is no module of its name; `link` is a package that is a link to one in the run folder."""
    (tmp_path / "boats.py").unlink()
    (beside_its_module / place).parent.mkdir(exist_ok=True)
    (beside_its_module / place).write_text(f"open({str(tmp_path / 'done')!r}, 'w')", encoding="utf-8")
    module = "link" if place.startswith("to") else f"boats.{place.partition('.')[0].removesuffix('/__init__')}"
    (tmp_path / "link").symlink_to(beside_its_module / "to")
    edit(beside_its_module, env=f"{module.replace('/', '.')}:X-v0")
    assert "code in the same folder, which is not executed" in refused(capsys, "evaluate", beside_its_module)
    assert not (tmp_path / "done").exists()


SECRET = b"\x89PNG\r\n\x1a\n a secret"
PICTURES = {
    "a path": "/etc/hostname",
    "a path to a picture": "{tmp}/secret.png",
    "a way up": "../secret.png",
    "a link": "link.png",
    "no picture": "fake.png",
    "a page": "page.html",
    "a number": 5,
}


def crafted(tmp_path, **changes):
    folder = tmp_path / "crafted"
    folder.mkdir()
    result = {"title": "t", "claim": "c", "finding": "", "claims": [], "tables": {}, "figures": [], "programs": {}}
    text = json.dumps(result | {"hardware": "h", "command": "x"} | changes)
    (folder / "result.json").write_text(text.replace("{tmp}", str(tmp_path)))
    return folder


@pytest.mark.parametrize("case", PICTURES)
def test_a_report_embeds_no_other_file(case, tmp_path, capsys):
    folder = crafted(tmp_path, pictures={"p": PICTURES[case]})
    (tmp_path / "secret.png").write_bytes(SECRET)
    (folder / "link.png").symlink_to(tmp_path / "secret.png")
    (folder / "fake.png").write_text("a secret")
    (folder / "page.html").write_text("<p>")
    refused(capsys, "report", folder)
    assert not (folder / "report.html").exists()


def test_a_drawing_in_a_report_runs_no_script(tmp_path):
    folder = crafted(tmp_path, figures=["<script>alert(1)</script>"], claim="<script>")
    (folder / "script-alert-1-script.svg").write_text("<svg><script>alert(1)</script></svg>")
    page = write([read_page(folder)], folder / "report.html").read_text()
    assert "<script" not in page
    assert "data:image/svg+xml;base64," in page


BAD_RESULTS = {
    "deep": 200_000 * "[",
    "no table": {"tables": {"t": {"columns": 5, "rows": []}}},
    "no rows": {"tables": {"t": {"columns": [], "rows": [5]}}},
    "no claim": {"claims": [{"sentence": "s", "verdict": "v", "measured": "x", "ci95": None, "paper": ""}]},
    "no interval": {"claims": [{"sentence": "s", "verdict": "v", "measured": 1.0, "paper": ""}]},
    "no seconds": {"programs": {"p": {"runs": 1, "config": {}, "wall_seconds": "long"}}},
    "no programs": {"programs": 1},
}


@pytest.mark.parametrize("case", BAD_RESULTS)
def test_a_result_that_is_none_is_one_line(case, tmp_path, capsys):
    bad = BAD_RESULTS[case]
    folder = crafted(tmp_path, **({} if isinstance(bad, str) else bad))
    if isinstance(bad, str):
        (folder / "result.json").write_text(bad)
    refused(capsys, "report", folder)


def rewritten(file, change):
    """A safetensors file whose header says something else."""
    data = file.read_bytes()
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])
    change(header["__metadata__"])
    text = json.dumps(header).encode()
    file.write_bytes(len(text).to_bytes(8, "little") + text + data[8 + size :])


def set_step(step):
    return lambda metadata: metadata.update(counters=json.dumps({**COUNTERS, "step": step}))


@pytest.mark.parametrize("step", [640, -1, 1e999, "x", 10**30])
def test_the_header_of_a_policy_is_in_its_checksum(step, run):
    rewritten(run / "policy.safetensors", set_step(step))
    with pytest.raises(policy_file.DamagedPolicy):
        policy_file.step_of(run)


def test_the_checkpoint_just_written_is_kept(tmp_path):
    """Also beside folders that seem to be newer."""
    for name in ("999999999998", "999999999999"):
        (tmp_path / "checkpoints" / name).mkdir(parents=True)
    for step in (160, 320, 480):
        checkpoint.save(tmp_path, step, STATE, COUNTERS, {}, config="{}")
    assert [int(path.name) for path in checkpoint.saved(tmp_path)][2:] == [480, 320]


@pytest.mark.parametrize("name", ["config.json", "metrics.jsonl", "policy.safetensors", "new"])
@pytest.mark.parametrize("command", ["report", "explore"])
def test_a_page_replaces_no_other_file(command, name, run, capsys):
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    assert "valid: a name that does" in refused(capsys, command, run, "--out", run / name)
    assert "--out: '' is not valid; valid: a path" in refused(capsys, command, run, "--out", "")
    assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("command", ["report", "explore"])
def test_a_page_goes_where_the_user_s_own_link_leads(command, run, tmp_path):
    (tmp_path / "link.html").symlink_to(tmp_path / "page.html")
    assert main([command, str(run), "--out", str(tmp_path / "link.html")]) == 0
    assert (tmp_path / "page.html").read_text().startswith("<!")


@pytest.mark.parametrize("damage", ["metrics.jsonl", "events"])
def test_a_run_that_is_not_trained_on_keeps_its_configuration(damage, run, capsys):
    if damage == "events":
        shutil.rmtree(run / damage)
        (run / damage).write_text("")
    else:
        (run / damage).write_text("no line\n" + (run / damage).read_text())
    before = (run / "config.json").read_text()
    refused(capsys, "resume", run, "--steps", "800")
    assert (run / "config.json").read_text() == before


def test_a_run_whose_states_were_removed_is_not_begun_anew(run, capsys):
    shutil.rmtree(run / "checkpoints")
    (run / "policy.safetensors").unlink()
    before = (run / "metrics.jsonl").read_bytes()
    assert "metrics.jsonl of step 320 is here, but no checkpoint" in refused(capsys, "resume", run)
    assert (run / "metrics.jsonl").read_bytes() == before


def test_a_policy_of_the_first_step_is_one(run, program):
    """Nothing else was saved before the disk was full, say."""
    shutil.rmtree(run / "checkpoints")
    state = trainer.policy(program.config, program.init())
    policy_file.save(run, 0, state, COUNTERS, config=program.config.to_json())
    _, runs, counters = trainer.restore(run, print)
    assert counters["step"] == 0
    actor = runs.learner.agent.actor.layers[0].weight
    np.testing.assert_array_equal(actor, state.learner.agent.actor.layers[0].weight)


@pytest.mark.parametrize("command", ["report", "resume"])
def test_evaluations_of_another_run_are_noticed(command, run, capsys):
    lines = read_lines(run / "metrics.jsonl")
    (run / "metrics.jsonl").unlink()
    for line in lines:
        append_line(run / "metrics.jsonl", line | {"seeds": 2 * line["seeds"]})
    assert f"of {2 * len(lines[0]['seeds'])} runs" in refused(capsys, command, run)


def test_names_may_be_any_bytes(tmp_path):
    atomic_write(tmp_path / "page.html", "run \udcff and \ud800")
    assert (tmp_path / "page.html").read_text() == r"run \udcff and \ud800"


def test_a_checkpoint_that_was_renamed_is_damaged(run, program):
    (run / "checkpoints" / "000000000320").rename(run / "checkpoints" / "000000000999")
    with pytest.raises(checkpoint.Damaged, match="is of step 320"):
        checkpoint.read(run / "checkpoints" / "000000000999", program.shapes(), program.config.to_json(), print)


@pytest.mark.parametrize("change", [{"learning_rate": [0.5]}, {"discount": 0.5}, {"target_rate": 0.1}], ids=str)
@pytest.mark.parametrize("command", ["evaluate", "resume", "report"])
def test_an_edited_configuration_is_noticed(command, change, run, capsys):
    edit(run, **change)
    assert f"config.json has {next(iter(change))} " in refused(capsys, command, run)


def test_what_may_be_changed_is_told(run, program):
    said = []
    config = json.dumps(json.loads(program.config.to_json()) | {"evaluate_every": 80, "steps": 10_000})
    checkpoint.read(run / "checkpoints" / "000000000320", program.shapes(), config, said.append)
    assert len(said) == 2
    assert "config.json has steps 10000, " in said[0]
    assert "config.json has evaluate_every 80, " in said[1]


def changed_line(path, number, change):
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    change(lines[number])
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


LINES = {
    "a number": lambda line: line["mean"].update(F=9.0),
    "a number of a run": lambda line: line["seeds"][0].update(lgr_z=1.0),
    "the digest": lambda line: line.update(digest="0" * 16),
    "no digest": lambda line: line.pop("digest"),
    "infinity": lambda line: (line["mean"].update(F=1e999), line.pop("digest")),
    "no interval": lambda line: (line.pop("ci95"), line.pop("digest")),
    "no losses": lambda line: (line["seeds"][0].pop("train"), line.pop("digest")),
}


@pytest.mark.parametrize("number", [0, 1])
@pytest.mark.parametrize("case", LINES)
def test_an_edited_line_is_noticed(case, number, run):
    changed_line(run / "metrics.jsonl", number, LINES[case])
    with pytest.raises(UsageError, match=r"metrics.jsonl is damaged"):
        read_lines(run / "metrics.jsonl")


def test_a_line_that_is_missing_is_noticed(run):
    path = run / "metrics.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join([lines[0], *lines[2:]]))
    with pytest.raises(UsageError, match="step 320, or one before it"):
        read_lines(path)


def test_lines_of_old_have_no_digest(run):
    path = run / "metrics.jsonl"
    for number in range(3):
        changed_line(path, number, LINES["no digest"])
    assert len(read_lines(path)) == 3


def test_a_line_of_an_older_version_without_what_reports_need_is_noticed(run):
    path = run / "metrics.jsonl"
    line = json.loads(path.read_text().splitlines()[0])
    line["seeds"][0]["train"].pop("F")
    line.pop("digest")
    path.write_text(json.dumps(line) + "\n")
    with pytest.raises(UsageError, match=r"metrics.jsonl is damaged"):
        read_lines(path)


@pytest.mark.parametrize("line", [200_000 * "[", '{"step": 1e999}', "0" * 5000])
def test_a_line_that_is_none_is_one_line(line, run):
    (run / "metrics.jsonl").write_text(line + "\n")
    with pytest.raises(UsageError, match=r"metrics.jsonl is damaged"):
        read_lines(run / "metrics.jsonl")


READERS = {
    "config.json": lambda run, program: run_folder.read_config(run),
    "metrics.jsonl": lambda run, program: read_lines(run / "metrics.jsonl"),
    "policy.safetensors": lambda run, program: policy_file.read(run, program.shapes(), "{}", print),
    "checkpoints/000000000320/state.safetensors": lambda run, program: checkpoint.read(
        run / "checkpoints" / "000000000320", program.shapes(), "{}", print
    ),
    "checkpoints/000000000320/sha256": lambda run, program: checkpoint.read(
        run / "checkpoints" / "000000000320", program.shapes(), "{}", print
    ),
    "result.json": lambda run, program: read_page(run),
}


@pytest.mark.parametrize("kind", ["a pipe", "a device", "a folder", "six gigabytes of nothing"])
@pytest.mark.parametrize("name", READERS)
def test_what_is_no_file_of_ours_is_not_read(kind, name, run, program):
    path = run / name
    path.unlink(missing_ok=True)
    if kind == "a pipe":
        os.mkfifo(path)
    elif kind == "a device":
        path.symlink_to("/dev/zero")
    elif kind == "a folder":
        path.mkdir()
    else:
        path.touch()
        os.truncate(path, 6 * 10**9)
    with pytest.raises((UsageError, checkpoint.Damaged)):
        READERS[name](run, program)


def test_a_state_of_other_shapes_is_refused(run, program):
    path = run / "checkpoints" / "000000000320"
    arrays = {name: x[:0] for name, x in load_file(path / "state.safetensors").items()}
    counters = json.dumps({**COUNTERS, "step": 320})
    header = {"layout": str(checkpoint.LAYOUT), "counters": counters, "config": program.config.to_json()}
    save_file(arrays, path / "state.safetensors", header)
    (path / "sha256").write_text(checkpoint.checksum(path / "state.safetensors"))
    with pytest.raises(UsageError, match=r"is not as this version and config.json have it"):
        checkpoint.read(path, program.shapes(), program.config.to_json(), print)


def test_the_policy_is_read_where_it_is_as_new(run, monkeypatch, program):
    """It is small, a checkpoint is not."""
    with monkeypatch.context() as patch:
        patch.setattr(checkpoint, "read", lambda *_: pytest.fail("all of replay was read"))
        assert trainer.restore(run, print)[2]["step"] == 320
    older = load_file(run / "policy.safetensors")
    state, counters = policy_file.read(
        run, trainer.policy(program.config, program.shapes()), program.config.to_json(), print
    )
    policy_file.save(run, 160, state, counters | {"step": 160}, config=program.config.to_json())
    assert older.keys() == load_file(run / "policy.safetensors").keys()
    assert trainer.restore(run, print)[1].replay, "the checkpoint is newer"


def options():
    """Every option that takes a value, of every command."""
    commands = cli.parser()._subparsers._group_actions[0].choices.items()
    return [
        (command, option)
        for command, made in commands
        for action in made._actions
        for option in action.option_strings
        if action.nargs != 0 and option.startswith("--")
    ]


def test_two_dashes_are_no_value(capsys):
    for command, option in options():
        assert option in refused(capsys, command, f"{option}=--")


@pytest.mark.parametrize(
    "sizes",
    [
        ["lingcrl", "--env", "projected-pointmass", "--dims", "65536", "--projection-dim", "65536"],
        ["--dims", "65536", "--replay", "2000000000"],
        ["--hidden", "65536,65536,65536,65536"],
    ],
    ids=str,
)
def test_what_does_not_fit_into_memory_is_refused_before_it_is_tried(sizes, capsys, tmp_path):
    said = refused(capsys, "train", *sizes, "--out", tmp_path / "run")
    assert "memory" in said or "matrix" in said
    assert not (tmp_path / "run").exists()


def test_what_does_not_fit_into_memory_is_not_compiled():
    with pytest.raises(UsageError, match="does not fit into memory"):
        vgcrl.compile(dims=65536, replay=2_000_000_000)


def test_what_a_kill_leaves_before_the_first_file_is_free(capsys, tmp_path):
    for name in (".lock", ".config.json.12345", "error.txt"):
        (tmp_path / name).touch()
    run_folder.check_free(tmp_path)
    assert f"`vgcrl train --out {tmp_path}`, nothing was saved" in refused(capsys, "resume", tmp_path)
    run_folder.remove_leftovers(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [".lock"]
    (tmp_path / ".bashrc").touch()
    with pytest.raises(UsageError, match="holds other files"):
        run_folder.check_free(tmp_path)


@pytest.mark.parametrize("how", ["removed", "replaced", "without its configuration"])
def test_a_folder_that_was_removed_is_not_called_saved(how, run):
    with run_folder.locked(run) as check:
        check()
        if how == "without its configuration":
            (run / "config.json").unlink()
        else:
            shutil.move(run, run.with_name("moved"))
        if how == "replaced":
            shutil.copytree(run.with_name("moved"), run)
        with pytest.raises(UsageError, match="was removed or replaced while it was being trained"):
            check()


def test_a_folder_that_goes_while_it_is_written_to_is_told_as_gone(run, monkeypatch, capsys):
    """Between a check and the next line."""

    def move(path, record):
        shutil.move(run, run.with_name("moved"))
        append_line(path, record)

    monkeypatch.setattr(loop, "append_line", move)
    assert main(["resume", str(run), "--steps", "480"]) == 2
    assert f"{run} was removed or replaced while it was being trained" in capsys.readouterr().err.splitlines()[-1]


def test_an_error_of_the_user_s_own_is_none_of_the_disk(run):
    def fail(record):
        raise OSError("mine")

    with pytest.raises(OSError, match="mine"):
        vgcrl.resume(run, 480, callback=fail)


def test_names_are_shown_as_they_are(capsys, tmp_path):
    """Not as the markup or the emoji that they may look like."""
    name = ":boat: [red]x[/] {}"
    display = Display(name, 10)
    display.note(name)
    view = View([name], print)
    view._console.print(view.table())
    said = capsys.readouterr().err
    assert said.splitlines()[0] == name
    assert said.count(name) == 2
    assert display._bar.columns[0](display._bar.tasks[0]).plain == name


def test_a_worker_that_was_stopped_does_not_hold_its_parent(monkeypatch):
    monkeypatch.setattr(gymnasium_pool, "PATIENCE", 0.0)
    envs = Foreign("Pendulum-v1", 1, 1, horizon=5, workers=1)
    keys = np.zeros((1, 2), np.uint32)
    envs.reset(keys)
    os.kill(envs.pool.parts[0].process.pid, signal.SIGSTOP)
    with pytest.raises(Broken, match="a worker process was stopped"):
        envs.step(np.zeros((1, 1, 1)), keys, 0)
    envs.close()


FAILING = """
import gymnasium

class Failing(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (1,))
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,))

    def reset(self, *, seed=None, options=None):
        return self.observation_space.sample(), {}

    def step(self, action):
        return self.observation_space.contains(1 / int(0 * action[0]))  # here

gymnasium.register("Failing-v0", Failing, max_episode_steps=5)
"""


def test_an_environment_that_fails_is_told_by_its_own_line(capsys, monkeypatch, tmp_path):
    (tmp_path / "failing.py").write_text(FAILING)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", sys.path[:])
    line = next(i for i, text in enumerate(FAILING.splitlines(), 1) if "# here" in text)
    words = ["train", "--env", "failing:Failing-v0", "--out", "run", *flags(seeds=1, envs=1)]
    assert main(words) == 2
    said = capsys.readouterr().err.splitlines()
    assert said[-1].startswith(
        f"vgcrl: failing:Failing-v0: ZeroDivisionError: division by zero at {tmp_path}/failing.py:{line}; "
    )
    assert said[-1].endswith("the whole traceback is in run/error.txt")
    whole = Path("run/error.txt").read_text()
    assert whole.startswith("Traceback (most recent call last):")
    assert "# here" in whole
    assert main([*words, "--debug"]) == 2, "the same command may be tried again"
    assert whole.strip() in capsys.readouterr().err


def test_mujoco_leaves_no_log(capfd, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    gymnasium_pool.make_env("HalfCheetah-v5", {}).close()
    assert not list(tmp_path.iterdir())
    assert "settotalmass" not in "".join(capfd.readouterr())


def test_a_folder_that_is_a_link_is_not_made(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    with pytest.raises(UsageError, match="is a link"):
        make_folder(tmp_path / "link")
    with pytest.raises(UsageError, match="no plain file"):
        open_to_read(tmp_path)


def test_targets_that_are_no_plain_file(run, capsys, tmp_path):
    os.mkfifo(tmp_path / "pipe.npy")
    (tmp_path / "large.npy").touch()
    os.truncate(tmp_path / "large.npy", 6 * 10**9)
    for name in ("pipe.npy", "large.npy"):
        assert "is no plain file" in refused(capsys, "evaluate", run, "--targets", tmp_path / name)


@pytest.mark.parametrize("name", run_folder.FILES)
def test_a_run_with_a_link_is_not_trained_on(name, run, capsys, tmp_path):
    if (run / name).exists():
        shutil.move(run / name, tmp_path / "elsewhere")
    (run / name).symlink_to(tmp_path / "elsewhere")
    assert "is a link, which nothing is written through" in refused(capsys, "resume", run, "--steps", "480")


@pytest.mark.parametrize("name", [".notes.2024", ".cache.1"])
def test_what_only_looks_like_a_leftover_is_the_user_s(name, tmp_path):
    mine = tmp_path / name
    mine.touch() if name == ".notes.2024" else mine.mkdir()
    with pytest.raises(UsageError, match="holds other files"):
        run_folder.check_free(tmp_path)
    run_folder.remove_leftovers(tmp_path)
    assert mine.exists()
