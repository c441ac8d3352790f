"""Options with several values: what becomes a setting, what a program; and what is reported of them."""

import json

import pytest

from tiny import flags
from vgcrl.cli import main
from vgcrl.errors import UsageError
from vgcrl.experiments.sweep.ask import Ask, Range, read_values
from vgcrl.experiments.sweep.grid import own_folder, programs, tasks
from vgcrl.experiments.sweep.results import Setting, best_command, higher_is_better, outcome, report, settings
from vgcrl.experiments.sweep.trials import tried, write_down
from vgcrl.training import run_folder
from vgcrl.training.logs import append_line

pytestmark = pytest.mark.usefixtures("unrendered")

GRID = {"method": ["diayn"], "goal_dim": [2, 3], "learning_rate": [1e-3, 1e-4], "spectral_norm": [0.0, 2.0]}
METRICS = ("F", "log_q", "lgr_z", "lgr_s")


@pytest.mark.parametrize(
    ("name", "text", "one", "expected"),
    [
        ("goal_dim", "10,50", int, [10, 50]),
        ("features", "0,1/velocity", str, ["0,1", "velocity"]),
        ("posterior", "gaussian,gmm", str, ["gaussian", "gmm"]),
        ("learning_rate", "1e-5..1e-3", float, Range(1e-5, 1e-3)),
        ("goal_dim", "10..200", int, Range(10, 200)),
    ],
)
def test_values_as_on_the_command_line(name, text, one, expected):
    values = read_values(name, text, one)
    assert values == expected
    assert type(values) is type(expected)


def test_knobs_are_settings_of_one_program_and_the_others_programs():
    every = {name: config for name, (_, config) in programs(Ask(GRID)).items()}
    assert list(every) == ["goal-dim=2", "goal-dim=3"]
    for config in every.values():
        pairs = [(each["learning_rate"], each["spectral_norm"]) for each in config.settings]
        assert pairs == [(1e-3, 0.0), (1e-3, 2.0), (1e-4, 0.0), (1e-4, 2.0)]


def test_every_program_has_a_command_that_makes_it(tmp_path):
    from vgcrl.cli import parse
    from vgcrl.cli.commands.sweep import values_of

    ask = Ask(GRID | {"features": ["0,1", "position"], "hidden": [(16, 16)]})
    for task in tasks(ask, tmp_path, print):
        args = parse([*task.words, "--out", str(tmp_path)])
        again = Ask(values_of(args), program=args.program)
        assert programs(again)[task.name][1] == programs(ask)[task.name][1]


def write_run(folder, name, ask, numbers):
    """Of each setting the LGR(z) of two seeds, at two evaluations."""
    run = folder / "runs" / name
    run.mkdir(parents=True)
    _, config = programs(ask)[name]
    (run / "config.json").write_text(config.to_json())

    def line(step, scale):
        means = [scale * sum(seeds) / 2 for seeds in numbers]
        groups = [{"mean": dict.fromkeys(METRICS, x) | {"lgr_v": None}} for x in means]
        pairs = [(i, scale * x) for seeds in numbers for i, x in enumerate(seeds)]
        more = {"lgr_v": None, "train": {"F": 0.0}, "posterior": {}}
        each = [{"seed": i, **dict.fromkeys(METRICS, x), **more} for i, x in pairs]
        blank = dict.fromkeys((*METRICS, "lgr_v"))
        groups = [group | {"ci95": blank} for group in groups]
        return {"step": step, "wall": 1.0, "seeds": each, "mean": groups[0]["mean"], "ci95": blank, "settings": groups}

    for record in (line(0, 0.0), line(config.steps, 1.0)):
        append_line(run / "metrics.jsonl", record)
    return run


def test_the_best_setting_and_its_command(tmp_path):
    ask = Ask(GRID | {"seeds": [2]}, "lgr_z")
    for name, low in (("goal-dim=2", 0.1), ("goal-dim=3", 0.5)):
        write_run(tmp_path, name, ask, [[low, low], [low + 0.1] * 2, [low + 0.4] * 2, [low + 0.2] * 2])
    said = []
    path = report(ask, list(programs(ask)), tmp_path, said.append)
    best = "vgcrl train diayn --goal-dim 3 --learning-rate 0.0001 --spectral-norm 0.0 --seeds 2"
    assert said[0] == f"Best LGR(z), 0.900: {best}"
    assert best in path.read_text()
    (table,) = json.loads((tmp_path / "result.json").read_text())["tables"].values()
    assert table["columns"][:4] == ["goal dim", "learning rate", "spectral norm", "LGR(z)"]
    assert [row[3] for row in table["rows"]] == ["0.900", "0.700", "0.600", "0.500", "0.500", "0.300", "0.200", "0.100"]
    assert main(["report", str(tmp_path)]) == 0


def test_what_is_not_finished_is_told(tmp_path):
    ask = Ask(GRID)
    write_run(tmp_path, "goal-dim=2", ask, [[0.1, 0.2]] * 4)
    said = []
    assert report(ask, list(programs(ask)), tmp_path, said.append)
    assert said[0].startswith("1 program of 2 not finished. Best F")
    assert report(Ask(GRID), ["goal-dim=3"], tmp_path, said.append) is None


def test_a_setting_that_diverged_is_never_the_best(tmp_path):
    ask = Ask(GRID, "F")
    found = settings("goal-dim=2", write_run(tmp_path, "goal-dim=2", ask, [[0.1, 0.2]] * 4), ask.options, "F")
    lost = found[0]._replace(mean=found[0].mean | {"F": None})
    (table,) = outcome([lost, *found[1:]], ask, True).tables.values()
    assert [row[3] for row in table.rows] == ["0.150", "0.150", "0.150", "–"]


def test_which_way_is_better():
    assert higher_is_better("F", [])
    assert not higher_is_better("lgr_v", [])
    discrete, continuous = (programs(Ask({"method": [m]}))["all"][1] for m in ("diayn", "vgcrl"))
    assert higher_is_better("lgr_z", [discrete])
    with pytest.raises(UsageError, match="--optimise 'coverage' is unknown"):
        higher_is_better("coverage", [discrete])
    assert not higher_is_better("lgr_z", [continuous])
    with pytest.raises(UsageError, match="higher is better for some"):
        higher_is_better("lgr_z", [discrete, continuous])


def test_a_folder_has_one_sweep(tmp_path):
    for _ in range(2):
        with own_folder(tmp_path, Ask(GRID)):
            pass
    with pytest.raises(UsageError, match="holds another sweep"), own_folder(tmp_path, Ask(GRID | {"goal_dim": [4]})):
        pass


def test_one_process_at_a_time_trains_a_sweep(tmp_path, capsys):
    """Another is told so and writes nothing, but may train one of the programs alone, as nodes of a cluster do."""
    command = ["sweep", "diayn", "--goal-dim", "2,3", *flags(), "--out", str(tmp_path)]
    folder = tmp_path / "diayn-pointmass"
    folder.mkdir()
    with run_folder.locked(folder, "sweep"):
        assert main(command) == 2
        why = "another process is training this sweep; valid: wait for it, or stop it"
        assert capsys.readouterr().err == f"vgcrl: {folder}: {why}\n"
        assert [path.name for path in folder.iterdir()] == [".lock"]
        assert main([*command, "--program", "goal-dim=2"]) == 0
    assert main(command) == 0


@pytest.mark.parametrize("content", [b"\xff\xfe", b"", b'{"method": ["diayn"'])
def test_a_damaged_record_of_a_sweep_is_named(tmp_path, content):
    (tmp_path / "sweep.json").write_bytes(content)
    damaged = pytest.raises(UsageError, match=r"sweep\.json is damaged; valid: delete that file")
    with damaged, own_folder(tmp_path, Ask(GRID)):
        pass


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--goal-dim", "3", "--trials", "3", "--ray", "local"], "--trials: no option has several values"),
        (["--goal-dim", "3", "--trials", "3"], "--trials: no option has several values"),
        (["--goal-dim", "3,5", "--trials", "3", "--program", "goal-dim=3"], "--program does not go with --trials"),
    ],
)
def test_a_search_that_cannot_be_is_refused_at_once(words, said, tmp_path, capsys):
    """Before Ray is started, which takes a minute."""
    assert main(["sweep", "diayn", *words, "--out", str(tmp_path / "out")]) == 2
    assert capsys.readouterr().err.startswith(f"vgcrl: {said}")
    assert not list(tmp_path.iterdir())


def test_a_program_that_lost_its_last_evaluation_gets_it(tmp_path):
    assert main(["sweep", "diayn", "--goal-dim", "2,3", *flags(), "--out", str(tmp_path)]) == 0
    folder = next(tmp_path.iterdir())
    lines = folder / "runs" / "goal-dim=3" / "metrics.jsonl"
    whole = [json.loads(line)["seeds"] for line in lines.read_text().splitlines()]
    lines.write_text("".join(lines.read_text().splitlines(keepends=True)[:-1]))
    assert main(["sweep", "diayn", "--goal-dim", "2,3", *flags(), "--out", str(tmp_path)]) == 0
    again = [json.loads(line)["seeds"] for line in lines.read_text().splitlines()]
    assert [[seed["F"] for seed in seeds] for seeds in again] == [[seed["F"] for seed in seeds] for seeds in whole]


def test_arguments_of_an_environment_are_all_used(tmp_path):
    from vgcrl.cli import parse
    from vgcrl.cli.commands.sweep import values_of

    given = ["--env", "Pendulum-v1", "--env-arg", "g=5", "--env-arg", "render_mode=a/b,c", "--goal-dim", "2,3"]
    args = parse(["sweep", "diayn", *given, "--import", "json"])
    ask = Ask(values_of(args), modules=tuple(args.modules))
    assert ask.options["env_arg"] == [("g=5", "render_mode=a/b,c")]
    assert ask.command() == ["sweep", "diayn", *given[:2], *given[2:6], *given[6:], "--import", "json"]
    setting = Setting("goal-dim=3", {"goal_dim": 3}, {}, {}, ([], []))
    assert best_command(setting, ask).endswith("--goal-dim 3 --import json")
    assert "--env-arg g=5 --env-arg render_mode=a/b,c" in best_command(setting, ask)


def test_a_run_of_other_options_is_not_taken_for_one_of_the_sweep(tmp_path):
    ask = Ask(GRID)
    write_run(tmp_path, "goal-dim=2", ask, [[0.1, 0.2]] * 4)
    assert len(tasks(ask, tmp_path, print)) == 2
    for other in ({"batch": [64]}, {"steps": [640]}):
        with pytest.raises(UsageError, match="valid: another --out, or the same options to go on"):
            tasks(Ask(GRID | other, program="goal-dim=2"), tmp_path, print)
    assert len(tasks(Ask(GRID | {"batch": [64]}, program="goal-dim=3"), tmp_path, print)) == 1


def test_trials_are_written_down_once_and_a_damaged_file_is_told(tmp_path):
    for rate in (1e-3, 0.00100001, 1e-4):
        write_down(tmp_path, {"learning_rate": rate})
    assert tried(tmp_path, {"learning_rate"}) == [{"learning_rate": 1e-3}, {"learning_rate": 1e-4}]
    with pytest.raises(UsageError, match="line 1 is no trial"):
        tried(tmp_path, {"goal_dim"})
    with (tmp_path / "trials.jsonl").open("a") as file:
        file.write('{"learning_r')
    with pytest.raises(UsageError, match="line 3 is no trial; valid: the file as it was written, or without that line"):
        tried(tmp_path)


def test_a_dry_run_is_the_plan_alone(tmp_path, capsys):
    options = ["--goal-dim", "2,3", "--learning-rate", "1e-3,1e-4", "--steps", "640", "--seeds", "2", "--dry-run"]
    assert main(["sweep", "diayn", *options, "--out", str(tmp_path)]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines[1:] == [["goal-dim=2", "2", "4", "640"], ["goal-dim=3", "2", "4", "640"]]
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["diayn", "--goal-dim", "10,x"], "argument --goal-dim: 'x' is not valid; valid: an integer"),
        (["diayn", "--goal-dim", "2,0"], "goal-dim=0: --goal-dim 0 is out of range"),
        (["diayn", "--posterior", "categorical,gmm"], "posterior=gmm: --posterior 'gmm' cannot serve diayn"),
        (["diayn", "--learning-rate", "1e-4..1e-3"], "is a range; valid: --trials N with it"),
        (["diayn", "--learning-rate", "1e-3..1e-4"], "no range; valid: numbers LOW..HIGH"),
        (["diayn", "--optimise", "speed"], "--optimise 'speed' is unknown"),
        (["diayn", "--search", "best"], "--search 'best' is unknown; valid: random, asha, optuna"),
        (["diayn", "--program", "goal-dim=9", "--goal-dim", "2,3"], "valid: goal-dim=2, goal-dim=3"),
        (["diayn,vgcrl", "--optimise", "lgr_z"], "higher is better for some"),
        (["diayn", "--gpus", "0.5"], "--gpus does not apply without --ray"),
        (["diayn", "--ray", "local", "--cpus", "-1"], "--cpus -1 is out of range"),
        (["diayn", "--ray", "local", "--gpus", "0.33333"], "--gpus 0.33333 is out of range; valid: a number from 0"),
        (["diayn", "--ray", "local", "--gpus", "1.5"], "valid: up to 1, or a whole number"),
        (["diayn", "--ray", "local", "--gpus", "0", "--cpus", "0"], "would start all programs at once"),
        (["diayn", "--ray", "127.0.0.1:1"], "--ray 127.0.0.1:1: nobody answers"),
        (["diayn", "--minutes", "0"], "--minutes 0 is out of range"),
        (["diayn", "--search", "asha"], "--search asha is of trials; valid: --trials N with it"),
        (["diayn", "--program", "../../evil"], "--program ../../evil is not valid; valid: all"),
        (["diayn", "--program", "../a=b"], "--program ../a=b is not valid; valid: all"),
        (["diayn", "--optimise", "speed", "--dry-run"], "--optimise 'speed' is unknown"),
        (["diayn,vgcrl", "--optimise", "lgr_z", "--dry-run"], "higher is better for some"),
        (["diayn", "--cpus", "2", "--dry-run"], "--cpus does not apply without --ray"),
        (["diayn", "--trials", "3", "--goal-dim", "2,-5", "--dry-run"], "--goal-dim -5: --goal-dim -5 is out of range"),
        (["diayn", "--trials", "3", "--env", "nope", "--dry-run"], "nope"),
        (["diayn,vgcrl", "--trials", "3", "--dry-run"], "METHOD has several values"),
        (["diayn", "--import", "no_such_module"], "--import: 'no_such_module' cannot be imported"),
    ],
)
def test_bad_input_is_one_line(options, expected, tmp_path, capsys):
    assert main(["sweep", *options, "--out", str(tmp_path)]) == 2
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 1
    assert expected in said[0]
    assert not list(tmp_path.iterdir())
