"""What a report draws, from known numbers and of a run."""

from urllib.parse import unquote

import numpy as np
import pytest

from untrained import random_policies, untrained
from vgcrl.cli import main
from vgcrl.show.figures import arena, curves
from vgcrl.show.report import Page, Section, markdown, svg, watch
from vgcrl.show.tables import Table
from vgcrl.training.trainer import restore


def line(step, fresh, replay):
    """An evaluation of two settings with two seeds each."""
    seeds = [{"F": f, "lgr_z": 0.5, "train": {"F": r}} for f, r in zip(fresh, replay, strict=True)]
    return {"step": step, "seeds": seeds, "settings": [{"spectral_norm": 0.0}, {"spectral_norm": 2.0}]}


LINES = [line(0, [0, 0, 0, 0], [0, 0, 0, 0]), line(10, [-9, -7, 1, 3], [1, 2, 0, 1])]


def test_f_on_replay_is_dotted_beside_f():
    first, second = curves(LINES, ("F", "lgr_z")).axes
    dotted = [list(x.get_ydata()) for x in first.lines if x.get_linestyle() == ":"]
    assert dotted == [[0, pytest.approx(1.5)], [0, pytest.approx(0.5)]]
    thick = [list(x.get_ydata()) for x in first.lines if x.get_linewidth() == 2]
    assert thick == [[0, -8], [0, 2]]
    assert not [x for x in second.lines if x.get_linestyle() == ":"]


def test_what_some_runs_lost_is_drawn_of_the_others():
    (axis,) = curves([line(0, [0, 0, 0, 0], [0, 0, 0, 0]), line(10, [None, 1, 2, 3], [1, 2, 0, 1])], ("F",)).axes
    thin = [list(x.get_ydata()) for x in axis.lines if x.get_linewidth() == 1]
    np.testing.assert_equal(thin, [[0, np.nan], [0, 1], [0, 2], [0, 3]])


def test_the_same_numbers_are_the_same_drawing():
    once, again = (svg(curves(LINES, ("F", "lgr_z"))) for _ in range(2))
    assert once == again
    assert once.startswith("<svg")


@pytest.mark.parametrize("skills", [7, 20])
def test_each_path_has_the_colour_of_its_skill_in_the_key(skills, tmp_path):
    program, runs, _ = restore(untrained(tmp_path, "diayn", goal_dim=skills, seeds=1), print)
    axis, key = arena(program, runs, size=3).axes
    assert key.get_ylabel() == "skill"
    paths = [line.get_color() for line in axis.lines if line.get_linestyle() == "-"]
    (colours,) = [mesh for mesh in key.collections if np.size(mesh.get_array()) == skills]
    np.testing.assert_allclose(paths, colours.cmap(colours.norm(np.arange(skills))))


def test_goals_that_are_no_skills_have_no_key():
    assert len(arena(*random_policies("gcrl", seeds=1), goals=2).axes) == 1


def test_markdown_of_a_page():
    table = Table(["", "|G|"], [["a|b", "1"]])
    page = Page("Title", "Lead.", [Section("One", table=table), Section(text="Two."), Section("Empty")], "{}")
    assert (
        markdown(page) == "# Title\n\nLead.\n\n## One\n\n|  | \\|G\\| |\n|---|---|\n| a\\|b | 1 |\n\nTwo.\n\n## Empty\n"
    )


def test_evaluate_table_and_report(windy, capsys, tmp_path):
    capsys.readouterr()
    assert main(["evaluate", str(windy)]) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith("mean")
    page = tmp_path / "page.html"
    assert main(["report", str(windy), "--out", str(page)]) == 0
    text = page.read_text()
    assert text.count("<svg") == 2
    assert "agcrl on windy-pointmass" in text
    assert "http" not in text.replace("http://www.w3.org", "").replace("http://purl.org", "").replace(
        "http://creativecommons.org", ""
    ).replace("https://matplotlib.org", "")


def test_a_report_of_several_runs_links_to_the_page_of_each(tmp_path):
    for name in ("one", "two's"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "explore.html").touch()
        (section,) = watch(tmp_path / name, None, tmp_path / "one")
        assert (tmp_path / "one" / unquote(section.link)).resolve() == tmp_path / name / "explore.html"


@pytest.mark.parametrize(("last", "shown"), [(400_000, ["0", "200k", "400k"]), (10**7, ["0", "5M", "10M"])])
def test_steps_have_few_ticks_with_their_thousands_and_millions(last, shown):
    (axis,) = curves([line(0, [0] * 4, [0] * 4), line(last, [1] * 4, [1] * 4)], ("F",)).axes
    axis.figure.draw_without_rendering()
    assert [x.get_text() for x in axis.get_xticklabels() if x.get_position()[0] <= last] == shown
