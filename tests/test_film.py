"""Films of skills: how many frames, which goals, and what cannot be filmed."""

import os
import shutil
import subprocess
import sys
from types import SimpleNamespace

import jax
import numpy as np
import pytest
from PIL import Image

import vgcrl
from test_foreign import one_line
from untrained import untrained
from vgcrl.cli import main
from vgcrl.envs import gl, gymnasium_film
from vgcrl.show import figures, panels, rendered
from vgcrl.show import film as films
from vgcrl.show.explorer import recorded
from vgcrl.show.film import Request, _chosen, film
from vgcrl.show.filmstrip import camera
from vgcrl.training import trainer
from vgcrl.training.options import Options
from vgcrl.training.resolve import resolve
from vgcrl.training.run_folder import read_config


@pytest.fixture(scope="module")
def skills(tmp_path_factory):
    return untrained(tmp_path_factory.mktemp("skills"), "diayn", horizon=20)


@pytest.fixture(scope="module")
def body(tmp_path_factory):
    return untrained(tmp_path_factory.mktemp("body"), "gcrl", env="HalfCheetah", features="velocity")


def test_a_gif_has_a_frame_for_each_step_and_a_panel_for_each_skill(skills, tmp_path, capsys):
    out = tmp_path / "film.gif"
    assert main(["film", str(skills), "--skills", "0,3,7", "--out", str(out)]) == 0
    with Image.open(out) as found:
        assert found.n_frames == 21
        assert found.width == 3 * panels.WIDTH
    assert str(out) in capsys.readouterr().out


@pytest.mark.parametrize("kind", [float, np.float64, np.float32])
def test_a_point_mass_is_filmed_as_long_as_asked(kind, skills, tmp_path):
    path = film(
        skills, tmp_path / "film.gif", Request([0], seconds=kind(5 * read_config(skills).specification.seconds)), print
    )
    with Image.open(path) as found:
        assert found.n_frames == 6


def test_a_setting_is_filmed_in_its_own_arena(tmp_path, monkeypatch):
    """Whose size is that of its projection, also for the map of skills."""
    run = untrained(tmp_path, "diayn", env="projected-pointmass", projection_seed=(3, 4), horizon=20)
    drawn, mapped = [], []
    monkeypatch.setattr(panels, "arena", lambda places, low, high, *_: drawn.append((low, high)))
    monkeypatch.setattr(figures, "label_map", lambda spec, run: mapped.append(spec) or np.zeros((2, 2), int))
    films.scenes(run, Request([0], setting=1), print)
    own = resolve(Options("diayn", "projected-pointmass", projection_seed=(4,))).specification
    np.testing.assert_array_equal(drawn, [(own.low[:2], own.high[:2])])
    assert mapped[0].low == own.low


def test_a_film_lasts_as_long_as_what_it_shows(skills, tmp_path, monkeypatch):
    """Also where a step is no whole number of hundredths of a second, in which a .gif counts."""
    made = films.scenes(skills, Request([0], seconds=1), print)._replace(seconds=0.045)
    with Image.open(films.write(made, tmp_path / "film.gif")) as found:
        pauses = []
        for i in range(found.n_frames):
            found.seek(i)
            pauses.append(found.info["duration"])
    assert sum(pauses) == pytest.approx(1000 * 0.045 * (made.steps + 1), abs=10)
    assert set(pauses) == {40, 50}


def test_a_film_is_whole_or_not_there(skills, tmp_path, capsys):
    """Not written through a link that a folder came with; what was there stays where it cannot be made."""
    run = shutil.copytree(skills, tmp_path / "run")
    precious = tmp_path / "precious.txt"
    precious.write_text("mine")
    (run / "film.gif").symlink_to(precious)
    assert main(["film", str(run), "--skills", "1"]) == 2
    assert "is a link" in capsys.readouterr().err
    assert precious.read_text() == "mine"
    assert main(["film", str(run), "--skills", "1", "--out", str(run / "film.gif")]) == 0  # where the user names it
    assert precious.read_bytes()[:3] == b"GIF"


def test_of_several_settings_the_one_asked_for_is_filmed(tmp_path, capsys, monkeypatch):
    """Four runs: two settings of two seeds each."""
    run = untrained(tmp_path / "run", "diayn", horizon=20, spectral_norm=(1.0, 2.0))
    filmed, chosen = [], films._planar
    monkeypatch.setattr(films, "_planar", lambda *args: filmed.append(args[2]) or chosen(*args))
    for asked in ([], ["--setting", "1"], ["--setting", "1", "--seed", "1"]):
        assert main(["film", str(run), "--skills", "0", "--seconds", "0.2", *asked]) == 0
    assert filmed == [0, 2, 3]
    told = [line for line in capsys.readouterr().err.splitlines() if line.startswith("filmed: ")]
    assert told == ["filmed: spectral norm 1, the first setting; --setting 1 to 1 are the others"]
    one_line(
        lambda: vgcrl.film(run, setting=2),
        "setting 2 is not in this run; valid: 0 (spectral norm 1), 1 (spectral norm 2)",
    )


def test_a_body_is_drawn_without_opengl_and_moves(body, tmp_path, monkeypatch):
    monkeypatch.setattr(gl, "choose_gl", lambda: False)
    said = []
    path = film(body, tmp_path / "film.png", Request([(1.0,), (-1.0,)], seconds=0.5), said.append)
    with Image.open(path) as found:
        assert found.height > 2 * panels.HEIGHT
        pixels = np.asarray(found.convert("RGB"), float)
    first, last = pixels[:, : panels.WIDTH], pixels[:, -panels.WIDTH :]
    assert np.abs(first - last).mean() > 1
    assert "drawn flat" in said[0]


@pytest.mark.filterwarnings("error")
def test_an_mp4_is_a_film(body, tmp_path, monkeypatch):
    pytest.importorskip("imageio_ffmpeg")
    monkeypatch.setattr(gl, "choose_gl", lambda: False)
    path = film(body, tmp_path / "film.mp4", Request([(1.0,)], seconds=0.5), print)
    assert path.read_bytes()[4:8] == b"ftyp"


def test_on_a_tour_one_body_pursues_all_goals(body, tmp_path, monkeypatch):
    monkeypatch.setattr(gl, "choose_gl", lambda: False)
    path = film(body, tmp_path / "tour.gif", Request([(1.0,), (-1.0,)], seconds=0.5, tour=True), print)
    with Image.open(path) as found:
        assert found.width == panels.WIDTH


@pytest.mark.parametrize("box", [((-3, -9), (7, 2)), ((-40, 0), (40, 0)), ((-40, -15), (40, 15)), ((0, 0), (0, 0))])
def test_a_box_on_the_ground_is_in_view(box):
    """Its corners, by MuJoCo's camera: it looks along y from behind, from above."""
    low, high = np.array(box, float)
    centre, distance = rendered.in_view(low, high)
    right, up, away = camera(0, -rendered.ELEVATION)
    for x, y in [low, high, (low[0], high[1]), (high[0], low[1])]:
        seen = np.array([x, y, 0.0]) - centre
        depth = distance + seen @ away
        reach = depth * np.tan(np.radians(rendered.FOVY / 2))
        assert abs(seen @ up) < reach
        assert abs(seen @ right) < reach * rendered.WIDE / rendered.HIGH


def test_a_scene_holds_only_so_many(body, tmp_path, monkeypatch):
    monkeypatch.setattr(films, "find_renderer", lambda env: True)
    ask = Request([(x / 1e4,) for x in range(2400)], together=True)
    one_line(lambda: film(body, tmp_path / "film.gif", ask, print), "--together with 2,400 goals", "at most")


def test_what_does_not_fit_into_a_gif_is_told(skills, tmp_path, monkeypatch):
    monkeypatch.setattr(films, "LARGEST", 10**6)
    one_line(lambda: film(skills, tmp_path / "film.gif", Request([0]), print), "a .gif of 21 frames is too large")
    (tmp_path / "folder.gif").mkdir()
    one_line(lambda: film(skills, tmp_path / "folder.gif", Request([0]), print), "is a folder; valid: a file")


def test_one_scene_needs_opengl(body, tmp_path, monkeypatch):
    monkeypatch.setattr(gl, "choose_gl", lambda: False)
    one_line(lambda: film(body, tmp_path / "film.gif", Request(together=True), print), "--together", "OpenGL")


@pytest.mark.slow
def test_all_robots_are_in_one_scene_each_in_its_colour(tmp_path):
    """In a process of its own, since what draws is chosen before MuJoCo is imported."""
    words = [sys.executable, "-m", "vgcrl", "film", "ant-metra", "--together", "--seconds", "3", "--out", "film.png"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    if "needs OpenGL" in done.stderr:
        pytest.skip("no OpenGL renders here")
    assert done.returncode == 0, done.stderr
    with Image.open(tmp_path / "film.png") as found:
        last = found.convert("RGB").crop((found.width - rendered.WIDE, 40, found.width, found.height))
    hue, strong, _ = np.asarray(last.convert("HSV"), float).reshape(-1, 3).T
    counts = np.histogram(hue[strong > 120], bins=12, range=(0, 256))[0]
    assert (counts > 50).sum() >= 10


def test_tensorboard_reads_the_film(skills, tmp_path):
    from tensorboard.backend.event_processing.event_file_loader import EventFileLoader

    out = tmp_path / "film.gif"
    assert main(["film", str(skills), "--skills", "1", "--out", str(out), "--tensorboard"]) == 0
    (path,) = (skills / "events").iterdir()
    values = [(e.step, v.tensor.string_val) for e in EventFileLoader(str(path)).Load() for v in e.summary.value]
    ((step, (width, height, gif)),) = values
    assert (step, int(width), int(height)) == (640, panels.WIDTH, panels.HEIGHT + 34)
    assert gif == out.read_bytes()


BAD = {
    "tensorboard": (["--tensorboard", "--out", "film.png"], ".gif"),
    "ending": (["--out", "film.avi"], ".gif"),
    "skill": (["--skills", "0,99"], "from 0 to 9"),
    "seconds": (["--seconds", "0"], "positive"),
    "seed": (["--seed", "9"], "0 to 1"),
    "both": (["--skills", "0", "--goal", "1,2"], "not allowed with"),
    "tour": (["--tour"], "Ant"),
    "together": (["--together"], "Ant"),
    "both ways": (["--together", "--tour"], "one of them"),
}


@pytest.mark.parametrize("wrong", BAD)
def test_bad_input_is_one_line(wrong, skills, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    options, valid = BAD[wrong]
    assert main(["film", str(skills), *options]) == 2
    said = capsys.readouterr().err.strip()
    assert said.count("\n") == 0
    assert valid in said
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("goals", [[], 3, np.zeros((0, 1)), np.array(1.0)], ids=repr)
def test_goals_are_a_list_of_some(skills, body, goals, tmp_path):
    for run, what in ((skills, "--skills"), (body, "--goal")):
        valid = "valid: a list of goals of this run"
        one_line(lambda run=run: vgcrl.film(run, goals=goals, out=tmp_path / "film.png"), what, repr(goals), valid)
    assert not list(tmp_path.iterdir())


def test_a_goal_that_is_none_is_told_from_what_is(skills, body, tmp_path):
    for run, goals, words in (
        (skills, [12], ("an integer from 0 to 9, not 12", "valid: --skills from 0 to 9")),
        (body, [(1.0, 2.0)], ("a list of 1 finite number, not (1.0, 2.0)", "valid: --goal with 1 number")),
    ):
        one_line(lambda run=run, goals=goals: vgcrl.film(run, goals=goals, out=tmp_path / "film.png"), *words)


def test_skills_and_goals_are_not_taken_for_each_other(skills, body, tmp_path):
    for run, goals, words in (
        (skills, [(1.0, 2.0)], ("--goal (1.0, 2.0) is no goal of this diayn run", "valid: --skills from 0 to 9")),
        (body, [3], ("--skills 3 is no goal of this gcrl run", "valid: --goal with 1 number")),
    ):
        one_line(lambda run=run, goals=goals: vgcrl.film(run, goals=goals, out=tmp_path / "film.png"), *words)


def test_a_skill_has_one_colour_in_label_and_picture(skills, tmp_path):
    """That of the report and the page."""
    film(skills, tmp_path / "film.png", Request([7], seconds=0.2), print)
    with Image.open(tmp_path / "film.png") as found:
        pixels = np.asarray(found.convert("RGB"), float)
    hue = 255 * figures.palette(10)[7][:3]
    near = np.abs(pixels - hue).max(axis=-1) < 3
    assert near[:34, : panels.WIDTH].any()
    assert near[34:, : panels.WIDTH].any()


@pytest.mark.parametrize(("works", "display", "chosen"), [(False, "", "off"), (True, "", "egl"), (False, ":0", None)])
def test_gymnasium_is_told_what_to_render_with(works, display, chosen, monkeypatch):
    for name, value in (("MUJOCO_GL", ""), ("WAYLAND_DISPLAY", ""), ("DISPLAY", display), ("PYOPENGL_PLATFORM", "")):
        monkeypatch.setenv(name, value)
    monkeypatch.setitem(sys.modules, "mujoco", None)
    monkeypatch.setattr(gl.subprocess, "run", lambda *_, **__: SimpleNamespace(returncode=0 if works else 1))
    gl.choose_for_gymnasium()
    assert (os.environ["MUJOCO_GL"] or None) == chosen


def test_what_does_not_draw_itself_is_asked_once(tmp_path, monkeypatch):
    asked = []

    def fails(*_):
        asked.append(1)
        raise gymnasium_film.NoPictures("it is broken")

    monkeypatch.setattr(gymnasium_film, "filmed", fails)
    program, runs, _ = trainer.restore(untrained(tmp_path, "diayn", env="Pendulum-v1", goal_dim=3), print)
    found = recorded.episodes(program, runs, noise=False, given=None, say=print)
    assert (len(found), len(asked), found[2]["pictures"]) == (3, 1, [])


def test_a_page_draws_no_more_pictures_than_it_shows(tmp_path, monkeypatch):
    monkeypatch.setattr(recorded, "PICTURES", 4)
    folder = untrained(tmp_path / "run", "diayn", env="picture_envs:DrawnSquare-v0", goal_dim=2, horizon=8, workers=0)
    program, runs, _ = trainer.restore(folder, print)
    drawn, render = [], gymnasium_film._rendered
    monkeypatch.setattr(gymnasium_film, "_rendered", lambda *given: drawn.append(1) or render(*given))
    found = recorded.episodes(program, runs, noise=False, given=[1], say=print)
    assert (len(found[0]["pictures"]), found[0]["every"], len(drawn)) == (3, 3, 3), "of moments 0, 3 and 6 of 0 to 8"


def test_a_goal_that_it_was_not_trained_for_is_one_line(tmp_path, capsys):
    assert main(["film", "halfcheetah-place", "--goal", "2", "--goal", "-11", "--out", str(tmp_path / "film.png")]) == 2
    assert "--goal -11 is out of range; valid: -10 to 10\n" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("env", ["Square-v0", "DrawnSquare-v0"])
def test_what_is_seen_in_pictures_is_filmed(env, tmp_path, capsys):
    """As it renders itself, else as it is observed."""
    folder, out = untrained(tmp_path / "run", "diayn", env=f"picture_envs:{env}", goal_dim=2), tmp_path / "film.png"
    assert main(["film", str(folder), "--out", str(out), "--noise", "yes"]) == 0
    with Image.open(out) as found:
        pixels = np.asarray(found.convert("RGB"))
    square = [200, 80, 60] if env.startswith("Drawn") else [200, 200, 200]
    shown = (pixels == square).all(axis=-1)[:, : panels.WIDTH]
    assert shown.mean() > 0.01


def test_all_goals_asked_for_are_filmed(tmp_path):
    """Of an environment that draws itself too; a few of them where none is asked for."""
    folder = untrained(tmp_path, "diayn", env="picture_envs:DrawnSquare-v0", horizon=8, workers=0)
    asked = films.scenes(folder, Request([0, 1, 2, 3, 4, 5], seconds=1), print)
    assert asked.labels == [f"skill {k}" for k in range(6)]
    assert len(films.scenes(folder, Request(seconds=1), print).labels) == films.FEW


def test_where_nothing_renders_it_says_so(tmp_path, capsys):
    folder = untrained(tmp_path / "run", "diayn", env="Pendulum-v1", goal_dim=2)
    code = main(["film", str(folder), "--seconds", "1", "--out", str(tmp_path / "film.gif")])
    said = capsys.readouterr().err
    assert code == 0 or (code == 2 and "rgb_array" in said)  # it draws itself where pygame is installed


def test_a_run_ends_with_a_film_among_its_events(tmp_path, monkeypatch, capsys):
    """Where asked; not of one that was stopped, and what cannot be filmed is told before it is trained."""
    from vgcrl.training import trainer
    from vgcrl.training.run_folder import Run, read_config

    folder = untrained(tmp_path / "run", "diayn", horizon=20, goal_dim=2)
    last = {"step": 640, "mean": {}}
    for interrupted in (True, False):
        run = Run(folder, read_config(folder), last, interrupted)
        monkeypatch.setattr(trainer, "start", lambda *_, run=run, **__: run)
        monkeypatch.setattr("vgcrl.cli.commands.train.missing_for_reports", lambda: ["jinja2"])
        assert main(["train", "diayn", "--film"]) == (130 if interrupted else 0)
        assert (folder / "film.gif").exists() is not interrupted
    (events,) = (folder / "events").iterdir()
    assert (folder / "film.gif").read_bytes() in events.read_bytes()
    assert "also among TensorBoard's images" in capsys.readouterr().out
    monkeypatch.undo()
    assert main(["train", "gcrl", "--dims", "1", "--film", "--out", str(tmp_path / "none")]) == 2
    assert "pointmass cannot be filmed" in capsys.readouterr().err
    assert not (tmp_path / "none").exists()


def test_goals_of_a_film_are_within_their_range(tmp_path):
    run = untrained(tmp_path, "gcrl", features="0,1", goal_range=(1.0, 5.0))
    program, runs, _ = trainer.restore(run, print)
    found = _chosen(program, jax.tree.map(lambda x: x[0], runs), None)
    np.testing.assert_allclose(found, [[4.2, 3], [3, 4.2], [1.8, 3], [3, 1.8]], atol=1e-5)
