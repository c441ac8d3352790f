"""Several runs on one page: what is put side by side, and what is not."""

import shutil
from types import SimpleNamespace

import numpy as np
import pytest
from matplotlib import rc_context
from matplotlib.colors import to_hex

from vgcrl.cli import main
from vgcrl.measure.places import PLACES
from vgcrl.measure.statistics import interval
from vgcrl.objective.goals import cube
from vgcrl.show import compared
from vgcrl.show.compared import Entry, Kind, read_run
from vgcrl.show.report import comparison_page
from vgcrl.show.scales import Scale

SKILLS = Scale("LGR(z)", "share", True, 0.1, 1.0)
MORE_SKILLS = SKILLS._replace(chance=0.05)
STATES = Scale("LGR(z)", "error", False, 0.75, 0.0)
SHARE, ERROR = Kind("lgr_z", "LGR(z)", True), Kind("lgr_z", "LGR(z)", False)
SEVEN, EIGHT = cube(7), cube(8)


def entry(name, scale, *evaluations, goals=SEVEN, setting=(), **options):
    """An entry whose evaluations have these values of LGR(z), one per seed."""

    def line(step, values):
        known = None not in values
        mean = {"lgr_z": float(np.mean(values)) if known else None}
        record = {"step": step, "wall": 60.0, "mean": mean, "ci95": {"lgr_z": interval(values) if known else None}}
        return record | {"seeds": [{"lgr_z": x} for x in values]}

    options = dict.fromkeys(compared.ENVIRONMENT) | options
    config = SimpleNamespace(settings=[dict(setting)], seeds=len(evaluations[0]), **options)
    lines = [line(10 * i, values) for i, values in enumerate(evaluations)]
    return Entry(name, SimpleNamespace(config=config, goals=goals), lines, 0, {"lgr_z": scale})


def test_a_difference_is_marked_where_its_interval_excludes_zero():
    first = entry("first", SKILLS, [0.50, 0.51, 0.52])
    others = [
        entry("more", SKILLS, [0.80, 0.81, 0.82]),
        entry("less", SKILLS, [0.10, 0.11, 0.12]),
        entry("as much", SKILLS, [0.50, 0.53, 0.51]),
        entry("one seed", SKILLS, [0.9]),
        entry("diverged", SKILLS, [None, 0.5, 0.5]),
        entry("other chance", MORE_SKILLS, [0.8, 0.8, 0.8]),
        entry("an error", STATES, [0.1, 0.1, 0.1]),
        entry("other goals", SKILLS, [0.8, 0.8, 0.8], goals=EIGHT),
        entry("other environment", SKILLS, [0.8, 0.8, 0.8], horizon=50),
        entry("other projection", SKILLS, [0.8, 0.8, 0.8], setting={"projection_seed": 1}),
    ]
    table = compared.differences([first, *others], [SHARE, ERROR])
    assert table.columns == ["difference from first", "LGR(z)\N{NO-BREAK SPACE}↑"], "the first has no error"
    found = {name: cell for name, cell in table.rows}
    assert found["more"] == "0.300 ± 0.023 ▲"
    assert found["less"] == "-0.400 ± 0.023 ▼"
    assert found["as much"][-1] not in "▲▼"
    assert found["one seed"] == "0.390"
    assert {found[name] for name in found if name.startswith(("diverged", "other", "an"))} == {"–"}


def test_less_of_an_error_is_better():
    first, less = entry("first", STATES, [0.5, 0.5, 0.5]), entry("less", STATES, [0.1, 0.1, 0.1])
    assert compared.differences([first, less], [ERROR]).rows == [["less", "-0.400 ± 0.000 ▲"]]


def test_shares_and_errors_have_columns_of_their_own():
    entries = [entry("skills", SKILLS, [0.5, 0.7]), entry("states", STATES, [0.2, 0.2])]
    kinds = compared.kinds_of(entries)
    assert kinds == [SHARE, ERROR]
    table = compared.last_evaluations(entries, kinds)
    assert table.columns[1:3] == ["LGR(z)\N{NO-BREAK SPACE}↑", "LGR(z)\N{NO-BREAK SPACE}↓"]
    assert [row[1:3] for row in table.rows] == [["0.600 ± 1.271", "–"], ["–", "0.200 ± 0.000"]]
    assert table.rows[0][3:] == ["0", "2", "1.0"]
    assert len(compared.curves(entries, kinds).axes) == 2


def test_chance_and_best_are_told_once_where_they_are_the_same():
    same = [entry(name, SKILLS, [0.5]) for name in "ab"]
    assert compared.levels(same, [SHARE]).rows == [["all", "0.1 to 1"]]
    other = [same[0], entry("c", MORE_SKILLS._replace(best=None), [0.5])]
    assert compared.levels(other, [SHARE]).rows == [["a", "0.1 to 1"], ["c", "0.05 to ?"]]


def test_curves_are_means_with_their_intervals():
    values = [0.1, 0.3], [0.5, 0.6]
    entries = [entry("a", SKILLS, *values), entry("b", SKILLS, *values[::-1])]
    figure = compared.curves(entries, [SHARE])
    assert compared.key(entries) == [(to_hex("C0"), "a"), (to_hex("C1"), "b")]
    (axis,) = figure.axes
    means = [list(line.get_ydata()) for line in axis.lines[:2]]
    assert means == [pytest.approx([0.2, 0.55]), pytest.approx([0.55, 0.2])]
    band = axis.collections[0].get_paths()[0].vertices[:, 1]
    for low, high in map(interval, values):
        assert {low, high} <= set(band)
    assert [line.get_color() for line in axis.lines[:2]] == ["C0", "C1"]


def test_folders_of_one_name_are_told_apart_by_their_paths(tmp_path):
    assert compared.names_of([tmp_path / "x", tmp_path / "y"]) == ["x", "y"]
    assert compared.names_of([tmp_path / "one/x", tmp_path / "two/x"]) == ["one/x", "two/x"]


def test_a_report_of_several_runs_begins_with_their_comparison(trained, windy, tmp_path):
    page = tmp_path / "page.html"
    assert main(["report", str(trained), str(windy), "--out", str(page)]) == 0
    text = page.read_text()
    assert text.index("<h1>Comparison</h1>") < text.index("diayn on pointmass") < text.index("agcrl on windy-pointmass")
    assert "Environments differ in --env" in text
    assert "<td>--relabel</td>" in text, "an option that differs"
    assert "<td>--hidden</td>" not in text, "an option that does not"
    assert main(["report", str(trained), "--out", str(page)]) == 0
    assert "Comparison" not in page.read_text()


def test_runs_of_one_environment_are_judged(trained, tmp_path):
    page = tmp_path / "page.html"
    link = tmp_path / "again"
    link.symlink_to(trained)
    assert main(["report", str(trained), str(link), "--out", str(page)]) == 0
    assert "Welch" in page.read_text()
    assert "Options that differ" not in page.read_text()


def test_names_are_any_text(trained, tmp_path):
    names = "$x^{$", "<b>&", "_x", b"bad\xff".decode(errors="surrogateescape")
    for name in names:
        shutil.copytree(trained, tmp_path / name)
        (tmp_path / name / "explore.html").touch()
    page = tmp_path / "page.html"
    assert main(["report", *(str(tmp_path / name) for name in names), "--out", str(page)]) == 0
    text = page.read_text()
    for shown in ("$x^{$", "&lt;b&gt;&amp;", "_x", r"bad\udcff"):
        assert f"</b> {shown}</div>" in text


def test_numbers_that_older_lines_lack_are_not_drawn(trained):
    run = read_run(trained)
    lines = [line | {part: without_places(line[part]) for part in ("mean", "ci95")} for line in run.lines]
    old = run._replace(lines=[line | {"seeds": list(map(without_places, line["seeds"]))} for line in lines])
    newer = run._replace(lines=[*old.lines[:-1], with_coverage(run.lines[-1])])
    (_, after) = entries = compared.entries_of([old, newer])
    assert [kind.metric for kind in after.kinds()][-1] == "coverage"
    kinds = compared.kinds_of(entries)
    assert compared.last_evaluations(entries, kinds).rows[0][len(kinds)] == "–"
    (*_, axis) = compared.curves(entries, kinds).axes
    assert np.isfinite(axis.lines[0].get_ydata()).sum() == 1


def without_places(numbers):
    return {name: x for name, x in numbers.items() if name not in PLACES}


def with_coverage(line):
    seeds = [row | {"coverage": 3.0} for row in line["seeds"]]
    return line | {"seeds": seeds, "mean": line["mean"] | {"coverage": 3.0}, "ci95": line["ci95"] | {"coverage": None}}


def test_a_run_that_diverged_is_drawn_until_then(trained):
    run = read_run(trained)
    last = run.lines[-1]
    lost = [row | {"F": None, "lgr_z": None, "lgr_s": None} for row in last["seeds"]]
    none = {name: None for name in last["mean"]}
    diverged = run._replace(lines=[*run.lines[:-1], last | {"seeds": lost, "mean": none, "ci95": none}])
    entries = compared.entries_of([run, diverged])
    kinds = compared.kinds_of(entries)
    assert [kind.metric for kind in entries[1].kinds()] == [kind.metric for kind in kinds]
    assert set(compared.last_evaluations(entries, kinds).rows[1][1 : 1 + len(kinds)]) == {"–"}
    drawn = compared.curves(entries, kinds).axes[0].lines[1].get_ydata()
    assert list(np.isfinite(drawn)) == [True] * (len(drawn) - 1) + [False]


def test_what_is_measured_in_the_same_way_is_compared():
    same = {"engine": "mjx", "physics": "exact", "alive_bonus": 1.0, "terminate": False}
    first, other = entry("a", SKILLS, [0.5, 0.5]), entry("b", SKILLS, [0.5, 0.5], **same)
    assert first.measured(SHARE) == other.measured(SHARE)
    assert compared.environments_differ([first, other]) == []
    faster = entry("c", SKILLS, [0.5, 0.5], **same | {"physics": "fast"})
    assert faster.measured(SHARE) != first.measured(SHARE)
    assert compared.environments_differ([first, other, faster]) == ["physics"]


def test_numbers_about_other_targets_are_not_compared():
    states = Scale("LGR(s)", "error", False, 1.5, 0.0)
    kinds = [SHARE, Kind("lgr_s", "LGR(s)", False)]
    few, many = (
        entry("a", SKILLS, [0.5, 0.5], evaluate_episodes=n)._replace(known={"lgr_z": SKILLS, "lgr_s": states})
        for n in (4, 8)
    )
    assert [few.measured(kind) == many.measured(kind) for kind in kinds] == [True, False]


def test_options_that_differ_in_the_middle_are_told_whole():
    long = ",".join(map(str, range(20)))
    features = [long, long.replace(",5,", ",6,")]
    runs = [SimpleNamespace(program=SimpleNamespace(config=SimpleNamespace(features=text))) for text in features]
    assert compared.differing(runs, ["features"]) == {"features": features}


def test_a_page_made_in_python_has_its_own_style(trained):
    with rc_context({"svg.fonttype": "none"}):
        page = comparison_page([read_run(trained)] * 2)
    assert not any("<text" in section.figure for section in page.sections)
