"""Pages of `vgcrl explore` in a real browser, from file:// and without network, beside what Python computes."""

import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import drawn_envs  # noqa: F401
import vgcrl
from browser import CHROMIUM, Browser
from untrained import random_policies, untrained
from vgcrl.cli import main
from vgcrl.envs import bodies, pointmass
from vgcrl.errors import UsageError
from vgcrl.measure.metrics import aim
from vgcrl.objective.learner import empowerment
from vgcrl.show.explorer import explore, export, page
from vgcrl.show.explorer.export import describe
from vgcrl.show.explorer.page import LARGEST, render
from vgcrl.use.api import load

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed: pages were not opened in a browser")
SIZE = 640, 420  # of the window; a software renderer is slow


@pytest.fixture(scope="module")
def browser():
    with Browser() as opened:
        opened.resize(*SIZE)
        yield opened


def start(browser: Browser, page: Path) -> None:
    browser.open(page)
    browser.run("vgcrl.ready.then(() => vgcrl.play(false))")


def wait_for_a_frame(browser: Browser) -> None:
    """The first callback may belong to a frame that has begun; before the second one the page has drawn."""
    browser.run("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")


def show(browser: Browser, folder: Path) -> None:
    start(browser, explore(folder, None, lambda text: None))


def call(browser: Browser, function: str, *arguments):
    return browser.run(f"vgcrl.{function}({', '.join(json.dumps(x) for x in arguments)})")


KINDS = {
    "categorical": ("diayn", {}),
    "action": ("infogail", {}),
    "transition": ("dads", {}),
    "identity": ("gcrl", {"inputs": "symlog"}),
    "huber": ("gcrl", {"posterior": "state-huber"}),
    "floored": ("gcrl", {"posterior": "state-floored", "sigma": 0.5}),
    "full": ("agcrl", {"posterior": "state-global-full"}),
    "linear": ("lingcrl", {"spectral_norm": (2.0,)}),
    "tanh": ("vgcrl", {}),
    "mixture": ("vgcrl", {"posterior": "gmm", "components": 3, "goal_dim": 3}),
    "tanh-full": ("vgcrl", {"posterior": "gaussian-full"}),
    "sphere": ("visr", {}),
    "visited": ("discern", {}),
    "relative": ("gcrl", {"relative_goals": True}),
    "places": ("gcrl", {"env": "HalfCheetah", "positions": True, "features": "place", "relative_goals": True}),
    "displacement": ("metra", {}),
    "displacement-normal": ("lsd", {"goal_dim": 3}),
    "displacement-categories": ("metra-discrete", {}),
    "projected": ("lingcrl", {"env": "projected-pointmass", "projection_dim": 3}),
}


@pytest.mark.parametrize("kind", KINDS)
def test_the_page_acts_and_thinks_as_python_does(kind, browser, tmp_path):
    """Actions, without noise and with the same, the goals that stand for states, and log q − log p, of every kind of
    posterior."""
    method, options = KINDS[kind]
    program, runs = random_policies(method, **options)
    page = tmp_path / "page.html"
    page.write_text(render(describe(program, runs, 1, {})))
    start(browser, page)
    run = jax.tree.map(lambda x: jnp.asarray(x[1]), runs)
    q, goals, count = run.learner.q, program.goals, 20
    browser.run("vgcrl.choose(1)")
    random, spec = np.random.default_rng(0), program.spec
    states, noise = (random.standard_normal((count, n), np.float32) for n in (spec.obs_dim, spec.action_dim))

    def answer(s, other, noise):
        z = aim(goals, q, jnp.zeros(len(s)), s)
        return goals.show(z), program.act(run, s, z), program.act(run, s, z, noise), empowerment(q, goals, q(other), z)

    shown, acted, sampled, ratio = jax.tree.map(np.asarray, jax.jit(jax.vmap(answer))(states, states[::-1], noise))
    each = zip(states, shown, states[::-1], noise, strict=True)
    given = json.dumps([[x.tolist() for x in one] for one in each])
    answers = browser.run(
        f"{given}.map(([s, z, t, e]) => ({{act: vgcrl.act(s, z), sample: vgcrl.act(s, z, e), "
        f"aim: vgcrl.aim({(0 * states[0]).tolist()}, s), ratio: vgcrl.ratio(t, z)}}))"
    )
    np.testing.assert_allclose([a["act"] for a in answers], acted, atol=1e-5)
    np.testing.assert_allclose([a["sample"] for a in answers], sampled, atol=1e-5)
    np.testing.assert_allclose([a["aim"] for a in answers], shown, rtol=1e-5, atol=1e-4)
    np.testing.assert_allclose([a["ratio"] for a in answers], ratio, rtol=1e-4, atol=1e-3)
    assert not browser.console


def reference(task: bodies.Task, start: dict, actions: np.ndarray) -> dict:
    """The same in Python's MuJoCo."""
    import mujoco

    model = bodies.load(task)
    data = mujoco.MjData(model)
    data.qpos[:], data.qvel[:] = start["qpos"], start["qvel"]
    mujoco.mj_forward(model, data)
    low, high = model.actuator_ctrlrange.T
    for action in actions:
        data.ctrl[:] = (low + high) / 2 + (high - low) / 2 * action.astype(np.float64)
        mujoco.mj_step(model, data, task.frames)
    return {"qpos": data.qpos, "qvel": data.qvel, "obs": bodies.observe(task, data, False).astype(np.float32)}


@pytest.mark.parametrize("env", bodies.TASKS)
def test_bodies_move_as_in_python_and_act_on_what_they_observe(env, browser, tmp_path):
    folder = untrained(tmp_path, "gcrl", env=env, features="velocity", hidden=(64, 64))
    show(browser, folder)
    policy, start = load(folder), browser.run("(vgcrl.reset(3), vgcrl.getState())")
    width = policy.spec.action_dim
    random = np.random.default_rng(0)
    # More steps, or larger actions, make chaos of what rounding left.
    actions = random.uniform(-0.1, 0.1, (100, width)).astype(np.float32)
    expected = reference(bodies.TASKS[env], start, actions)
    found = call(browser, "drive", actions.tolist())
    np.testing.assert_allclose(found["qpos"], expected["qpos"], atol=1e-6, rtol=1e-6)
    np.testing.assert_allclose(found["qvel"], expected["qvel"], atol=1e-4, rtol=1e-5)
    np.testing.assert_allclose(call(browser, "observation"), expected["obs"], atol=1e-4, rtol=1e-4)
    obs = [expected["obs"] + random.standard_normal(len(expected["obs"])).astype(np.float32) for _ in range(100)]
    z = [0.5, -1.0][: len(policy.goals.low)]
    mine = [policy.act(x, z=z) / policy.spec.action_high[0] for x in obs]
    theirs = browser.run(f"{json.dumps([x.tolist() for x in obs])}.map(x => vgcrl.act(x, {z}))")
    np.testing.assert_allclose(theirs, mine, atol=1e-5)
    assert (folder / "explore.html").stat().st_size < LARGEST
    assert not browser.console


def test_the_point_mass_moves_as_in_python(browser, tmp_path):
    show(browser, untrained(tmp_path, "gcrl", dims=3))
    start = {"qpos": [1.45, -0.2, 0.7], "qvel": [3.0, 0.0, -1.0]}
    call(browser, "setState", start)
    actions = np.random.default_rng(0).uniform(-1, 1, (200, 3)).astype(np.float32)
    sim = pointmass.PointState(np.float32(start["qpos"]), np.float32(start["qvel"]))
    for action in actions:
        sim = pointmass.physics(sim, pointmass.GEAR * action)
    found = call(browser, "drive", actions.tolist())
    np.testing.assert_allclose(found["qpos"], sim.position, atol=1e-3)  # float32 beside float64
    np.testing.assert_allclose(found["qvel"], sim.velocity, atol=1e-3)


def test_the_page_draws_its_noise_from_the_policy_and_a_seed(browser, tmp_path):
    """The first action of many seeds, told by the velocity it gives the mass, beside samples of Python's."""
    folder = untrained(tmp_path, "gcrl")
    show(browser, folder)
    z, width = [0.5, -0.5], 4
    start = {"qpos": [0.1, -0.2], "qvel": [0.0, 0.0]}
    first = f"(vgcrl.reset(i), vgcrl.setState({json.dumps(start)}), vgcrl.step(1).slice(2))"
    assert browser.run("vgcrl.noise()") is False
    browser.run(f"(vgcrl.setGoal({z}), vgcrl.setNoise(true))")
    velocities = np.array(browser.run(f"Array.from({{length: 1000}}, (_, i) => {first})"))
    gain = pointmass.TIMESTEP * pointmass.GEAR / (pointmass.MASS + pointmass.TIMESTEP * pointmass.DAMPING)
    many = np.repeat(np.float32([[*start["qpos"], *start["qvel"]]]), 20_000, axis=0)
    theirs = load(folder).act(many, z=z, deterministic=False, rng=np.random.default_rng(0))
    for i in range(width // 2):
        assert stats.ks_2samp(velocities[:, i] / gain, theirs[:, i]).pvalue > 1e-3
    walk = "(vgcrl.reset(7), vgcrl.step(20))"
    noisy, again, still = browser.run(f"[{walk}, {walk}, (vgcrl.setNoise(false), {walk})]")
    assert noisy == again
    assert noisy != still
    with pytest.raises(RuntimeError, match="noise is true or false"):
        browser.run("vgcrl.setNoise('loud')")
    browser.press("e")
    assert browser.run("[vgcrl.noise(), document.getElementById('noise').getAttribute('aria-pressed')]") == [
        True,
        "true",
    ]
    assert not browser.console


def test_a_policy_that_is_meant_with_noise_opens_with_it_and_goes_where_one_clicks(browser, tmp_path):
    start(browser, vgcrl.explore("ant-place", out=tmp_path / "page.html"))
    assert browser.run("vgcrl.noise()")
    assert "with the noise of its training" in browser.run("document.getElementById('facts').textContent")
    browser.run("vgcrl.reset(1)")
    place = [4.0, 0.0]
    browser.click(*call(browser, "pixelOf", place))
    assert np.allclose(browser.run("vgcrl.goals().current"), place, atol=0.1)
    here = browser.run("(vgcrl.step(100), vgcrl.place())")
    assert np.hypot(*np.subtract(here, place)) < 0.5
    wait_for_a_frame(browser)
    assert "with noise" in browser.run("document.getElementById('clock').textContent")
    assert not browser.console


def test_a_click_on_the_arena_is_a_goal_and_the_mass_goes_there(browser):
    from vgcrl.use.policies import folder_of

    page = Path(browser.home) / "shipped.html"
    explore(folder_of("windy-pointmass-agcrl"), page, lambda text: None)
    browser.open(page)
    browser.run("vgcrl.ready.then(() => { vgcrl.play(false); vgcrl.reset(1); })")
    for place in ([-1.0, 0.4], [1.0, -0.3]):
        browser.click(*call(browser, "pixelOf", place))
        assert np.allclose(browser.run("vgcrl.goals().current"), place, atol=0.02)
        far = abs(browser.run("(vgcrl.step(60), vgcrl.place()[0])") - place[0])
        assert far < 0.4, f"{far} m from the place clicked, along the axis without wind"
    assert not browser.console


def test_a_click_on_the_ground_steers_a_body_by_its_velocity(browser, tmp_path):
    show(browser, untrained(tmp_path, "gcrl", env="Ant", features="velocity"))
    browser.click(*call(browser, "pixelOf", [1.5, -1.0]))
    place, z = browser.run("[vgcrl.place(), vgcrl.goals().current]")
    away = np.array([1.5, -1.0]) - place
    assert np.dot(z, away) / np.linalg.norm(z) / np.linalg.norm(away) > 0.99
    browser.run("vgcrl.setGoal([1, 0])")
    assert browser.run("vgcrl.goals().current") == [1, 0]


@pytest.mark.parametrize(
    ("room", "kept", "said"), [(10, 9, "seed 9"), (5, 4, "seed 4 to seed 9"), (1, 1, "seed 1 to seed 9")]
)
def test_a_page_that_is_too_large_leaves_out_the_last(room, kept, said, monkeypatch):
    """A page of 100 bytes and 10 for each policy, of which there are ten."""
    run = {"policies": [{"label": f"seed {i}"} for i in range(10)], "world": {}}
    made, told = [], []
    monkeypatch.setattr(page, "render", lambda run: made.append(run) or "x" * (100 + 10 * len(run["policies"])))
    monkeypatch.setattr(page, "LARGEST", 100 + 10 * room - (room != 1))
    assert len(page.fitting(run, told.append)) == 100 + 10 * kept
    assert len(told) == 1
    assert told[0].endswith(f": {said}")
    assert len(made) <= 3, "all, the first alone, and what fits"


def test_a_page_of_one_policy_that_is_too_large_says_so(monkeypatch):
    told = []
    monkeypatch.setattr(page, "render", lambda run: "x" * 3_000_000)
    monkeypatch.setattr(page, "LARGEST", 2_000_000)
    assert len(page.fitting({"policies": [{"label": "seed 0"}], "world": {}}, told.append)) == 3_000_000
    assert told == ["the page has 3 MB, and may be slow to open"]


def test_steering_asks_for_no_velocity_that_was_not_trained(browser, tmp_path):
    show(browser, untrained(tmp_path, "gcrl", features="velocity", goal_range=(0.0, 1.0, -0.1, 0.1)))
    for place, axis, value in (([-5, 0], 0, 0), ([9, 0], 0, 1), ([0, 9], 1, 0.1), ([0, -9], 1, -0.1)):
        browser.run(f"(vgcrl.reset(0), vgcrl.goTo({place}))")
        z = browser.run("vgcrl.goals().current")
        assert z[axis] == pytest.approx(value, abs=0.05)
        assert 0 <= z[0] <= 1
        assert abs(z[1]) <= 0.1


def test_the_next_frame_shows_a_change_however_soon_it_comes(browser, tmp_path):
    """Also: where nothing is known yet the page says so."""
    show(browser, untrained(tmp_path, "gcrl"))
    for _ in range(5):
        for change, known in (("vgcrl.step(3)", True), ("vgcrl.reset(0)", False)):
            browser.run(change)
            wait_for_a_frame(browser)
            assert (browser.run("document.getElementById('value').textContent") != "–") == known


@pytest.mark.slow
def test_two_bodies_side_by_side_pursue_the_same_goal(browser, tmp_path):
    show(browser, untrained(tmp_path, "gcrl", env="HalfCheetah", features="velocity"))
    browser.run("(vgcrl.compare(1), vgcrl.setGoal([-1]), vgcrl.step(2))")
    wait_for_a_frame(browser)
    browser.run("(vgcrl.compare(null), vgcrl.choose(1), vgcrl.step(1))")
    assert browser.run("vgcrl.goals().current") == [-1]
    assert not browser.console


def test_the_mouse_pushes_the_mass(browser, tmp_path):
    show(browser, untrained(tmp_path, "gcrl"))
    state = {"qpos": [0.0, 0.0], "qvel": [0.0, 0.0]}
    alone = browser.run(f"(vgcrl.setState({state}), vgcrl.step(3), vgcrl.place())")
    call(browser, "setState", state)
    x, y = call(browser, "pixelOf", [0.0, 0.0])
    browser.mouse("mousePressed", x, y)
    browser.mouse("mouseMoved", x + 60, y)
    pushed = browser.run("(vgcrl.step(3), vgcrl.place())")
    browser.mouse("mouseReleased", x + 60, y)
    assert pushed[0] > alone[0] + 0.01
    assert pushed[1] == pytest.approx(alone[1], abs=0.05)


def test_keys_pause_step_and_choose_skills(browser, tmp_path):
    show(browser, untrained(tmp_path, "diayn"))
    browser.press("7")
    assert browser.run("vgcrl.goals().current") == 7
    browser.press("n")
    assert browser.run("vgcrl.goals().current") == 8
    before = browser.run("vgcrl.observation()")
    browser.press(".")
    assert browser.run("vgcrl.observation()") != before
    browser.press(" ")
    assert browser.run("document.getElementById('play').textContent") == "Pause"
    browser.press(" ")
    assert browser.run("document.getElementById('play').textContent") == "Play"
    focused = "document.activeElement.closest('button, select, summary, .pad') !== null"
    browser.press("Tab")
    assert browser.run(focused)
    assert not browser.console


def test_a_narrow_screen_shows_everything_without_scrolling_sideways(browser, tmp_path):
    browser.resize(360, 700)
    show(browser, untrained(tmp_path, "vgcrl"))
    browser.run("document.getElementById('follow').hidden = false")  # as of a body
    assert browser.run("document.documentElement.scrollWidth") <= 360
    box = "document.getElementById(i).getBoundingClientRect().toJSON()"
    boxes = browser.run(f"['view', 'transport', 'picker'].map(i => {box})")
    assert all(box["width"] > 100 and box["left"] >= 0 and box["right"] <= 360 for box in boxes)
    browser.resize(*SIZE)


def test_the_panel_has_room_for_the_names_of_settings(browser, tmp_path):
    browser.resize(1000, 500)
    options = {"relabel": "p-her", "relabel_fraction": (0.0, 0.5), "spectral_norm": (0.0, 2.0), "seeds": 2}
    show(browser, untrained(tmp_path, "diayn", **options))
    panel = browser.run("['scrollWidth', 'clientWidth'].map(i => document.querySelector('aside')[i])")
    assert panel[0] <= panel[1]
    browser.resize(*SIZE)


def test_a_target_state_becomes_the_goal_that_stands_for_it(browser, tmp_path):
    folder = untrained(tmp_path, "vgcrl")
    show(browser, folder)
    target = [0.3, -0.7, 0.0, 0.0]
    call(browser, "setTarget", target)
    np.testing.assert_allclose(browser.run("vgcrl.goals().current"), load(folder).embed(target), atol=1e-4)
    for wrong in ("setTarget([1, 2])", "setGoal([1, 2, 3])", "setGoal('x')"):
        with pytest.raises(RuntimeError, match="finite numbers"):
            browser.run(f"vgcrl.{wrong}")


WITHOUT = {
    "no WebAssembly": "delete window.WebAssembly",
    "WebGL": "HTMLCanvasElement.prototype.getContext = () => null",
}


@pytest.mark.parametrize("what", WITHOUT)
def test_what_a_browser_lacks_the_page_says(what, browser, tmp_path):
    folder = untrained(tmp_path, "gcrl", env="HalfCheetah", features="velocity")
    explore(folder, None, print)
    browser.open(folder / "explore.html", before=WITHOUT[what])
    assert what in browser.run("vgcrl.ready.then(() => '', () => document.getElementById('trouble').textContent)")


def test_the_command_writes_a_page_and_refuses_what_is_none(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["explore", "pointmass-diayn"]) == 0
    assert "pointmass-diayn.html" in capsys.readouterr().out
    page = (tmp_path / "pointmass-diayn.html").read_text()
    assert "http" not in page.split("<script", 1)[0]
    (tmp_path / "empty").mkdir()
    for wrong, valid in (("empty", "no config.json"), ("pointmass-dyan", "pointmass-diayn"), ("a/b", "no config.json")):
        assert main(["explore", wrong]) == 2
        said = capsys.readouterr().err.strip()
        assert valid in said
        assert "\n" not in said
    assert len(list(tmp_path.iterdir())) == 2


def test_a_posterior_that_the_page_does_not_know_still_acts(browser, tmp_path, monkeypatch):
    from vgcrl.show.explorer import networks

    monkeypatch.setattr(networks, "POSTERIORS", {})
    show(browser, untrained(tmp_path, "diayn"))
    assert len(browser.run("vgcrl.step(3)")) == 4
    assert "q is not shown" in browser.run("document.getElementById('opinion-text').textContent")
    assert not browser.console


def test_what_no_page_can_show_is_one_line(tmp_path):
    folder = untrained(tmp_path, "discern", env="pixel-pointmass", seeds=1)
    with pytest.raises(UsageError, match="pixel-pointmass cannot be shown"):
        explore(folder, None, print)


@pytest.mark.parametrize("env", ["Square-v0", "DrawnSquare-v0"])
def test_an_environment_that_is_seen_in_pictures_is_played_back(env, browser, tmp_path):
    """As it renders itself, else what it observes; a picture has no curves."""
    folder = untrained(tmp_path, "diayn", env=f"picture_envs:{env}", goal_dim=2)
    page = explore(folder, None, print)
    browser.open(page)
    assert browser.run("vgcrl.ready.then(() => vgcrl.goals())") == ["skill 0", "skill 1"]
    assert browser.run("vgcrl.pictures()") == 11
    assert browser.run("vgcrl.observation()") == []
    assert browser.run("(vgcrl.step(0), vgcrl.reset(), vgcrl.step(4), vgcrl.now())") == 4
    assert not browser.console


def test_a_foreign_environment_is_played_back(browser, tmp_path):
    """With pictures where it draws itself, with curves of its observation in any case."""
    show_pictures = untrained(tmp_path / "drawn", "diayn", env="Drawn-v0", goal_dim=3)
    explore(show_pictures, None, print)
    browser.open(show_pictures / "explore.html")
    browser.run("vgcrl.ready.then(() => 0)")
    assert browser.run("vgcrl.goals()") == ["skill 0", "skill 1", "skill 2"]
    assert browser.run("vgcrl.pictures()") > 1
    first = browser.run("(vgcrl.setGoal(1), vgcrl.reset(), vgcrl.step(0), vgcrl.observation())")
    assert browser.run("(vgcrl.step(3), vgcrl.observation())") != first
    assert not browser.console


@pytest.mark.parametrize(("norms", "shown"), [((2.0,), {"F": 1.5}), ((0.0, 2.0), {})])
def test_numbers_of_several_settings_are_not_shown_beside_one(norms, shown, tmp_path, monkeypatch):
    folder = untrained(tmp_path, "diayn", spectral_norm=norms)
    last = {"step": 640, "mean": {"F": 1.5}} | ({"settings": []} if len(norms) > 1 else {})
    monkeypatch.setattr(export, "read_lines", lambda path: [last])
    assert export.export_run(folder, print, False, None)["measured"] == shown
