"""Skills side by side as a film, with labels: .gif, .mp4, or .png with some moments of each skill in a row."""

import io
import itertools
import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from numbers import Real
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import matplotlib
import numpy as np
from matplotlib.colors import to_hex
from PIL import Image, ImageDraw, ImageFont

from vgcrl.envs import bodies, gl, gymnasium_film
from vgcrl.envs.mujoco_engine import Batch
from vgcrl.errors import UsageError, install
from vgcrl.files import atomic_write
from vgcrl.objective.goals import Box, Discrete
from vgcrl.objective.methods import METHODS
from vgcrl.show import figures, panels, rendered
from vgcrl.show.acting import acting, around, asks_for_goals, desired, given_goals, some_goals
from vgcrl.show.filmstrip import CANDIDATES, HUES, INK, minus, most_different, title
from vgcrl.show.tables import counted
from vgcrl.training import trainer
from vgcrl.training.config import Config
from vgcrl.training.events import Events
from vgcrl.training.program import Program, RunState, check_sound, one_run, without
from vgcrl.training.run_folder import read_config, steps_done

ENDINGS = (".gif", ".mp4", ".png")
FPS = 20
FONT = str(Path(matplotlib.get_data_path()) / "fonts" / "ttf" / "DejaVuSans.ttf")
LARGEST = 2 * 10**9  # bytes of the frames of a .gif
FEW, MANY, ACROSS, BAR, MOMENTS = 4, 12, 4, 34, 6


class Scenes(NamedTuple):
    """What is filmed: pictures of each skill at each step, what to write over them, and how long a step takes."""

    draw: panels.Draw
    steps: int
    seconds: float  # of one step
    labels: list[str]  # one per skill
    colours: list[str]  # one per skill
    remark: str = ""  # said beside the time


def hues(count: int) -> list[str]:
    return [HUES[i % len(HUES)] for i in range(count)]


def _chosen(program: Program, run: RunState, given: Sequence[Any] | None, together: bool = False) -> jax.Array:
    """Returns the goals to film as an array for the policy: those given, else some that differ."""
    goals, few = program.goals, MANY if together else FEW
    if given is not None:
        return given_goals(program, given)
    if isinstance(goals, Box) and METHODS[program.config.method].bounded and goals.dim == 2:
        low, high = np.array(goals.low, np.float32), np.array(goals.high, np.float32)
        return jnp.asarray((low + high) / 2 + 0.3 * (high - low) * around(few))
    return some_goals(program, run, CANDIDATES if isinstance(goals, Discrete) and not together else few)


def _label(program: Program, z: Any) -> str:
    """Returns the label of a goal: as a velocity or a place where it is one, else as a skill or a vector."""
    features, spec = program.config.feature_indices(program.spec), program.spec
    if METHODS[program.config.method].bounded and len(features) < 3:
        numbers = ", ".join(f"{x:.1f}" for x in np.asarray(z))
        return f"velocity {numbers} m/s" if features == spec.velocity else f"to {numbers}"
    return title(program.goals, z)


def _body(program: Program, run: RunState, z: jax.Array, free: bool, ask: "Request") -> Scenes:
    config, task = program.config, bodies.TASKS[program.config.env]
    if ask.together:
        rendered.check_count(task, len(z))
    steps, act, tour = round(ask.seconds / program.spec.seconds), acting(program, run, ask.noise), ask.tour
    envs = Batch(task, 1, 1 if tour else len(z), horizon=steps + 1, positions=bool(config.positions))
    keys = np.asarray(jax.random.key_data(run.key_evaluation))[None]
    obs, path, each = envs.reset(keys), [envs.qpos.copy()], -(-steps // len(z))
    for clock in range(steps):
        now = z[clock // each][None] if tour else z
        obs = envs.step(act(obs[0], now)[None], keys, clock).obs
        path.append(envs.qpos.copy())
    qpos, names = np.stack(path), [_label(program, each) for each in z]
    if ask.together:
        colours = [to_hex(colour) for colour in figures.palette(len(z))]
        label = f"{counted(len(z), 'goal')}, each in its colour; tiles of {rendered.FAR_TILE:g} m"
        return Scenes(rendered.together(task, qpos, colours), steps, program.spec.seconds, [label], [INK])
    few = most_different(qpos[-1, :, 0] - qpos[0, :, 0], FEW) if free else np.arange(qpos.shape[1])
    shown = [", then ".join(names)] if tour else [names[i] for i in few]
    draw = (rendered.alone if ask.rendered else panels.drawn_body)(task, qpos[:, few], hues(len(shown)))
    return Scenes(draw, steps, program.spec.seconds, shown, hues(len(shown)))


def _planar(program: Program, runs: RunState, index: int, z: jax.Array, ask: "Request") -> Scenes:
    spec = program.config.of_setting(index // program.config.seeds).specification  # which depends on the projection
    run, most = one_run(runs, index), max(1, round(ask.seconds / spec.seconds))
    path = np.asarray(program.record_episodes(runs, z, ask.noise))[index][: most + 1]
    low, high = (np.array(x[:2]) for x in (spec.low, spec.high))
    are_places = METHODS[program.config.method].bounded and program.config.feature_indices(program.spec)[:2] == (0, 1)
    targets = np.asarray(z)[:, :2] if are_places else None
    ground, colours = None, hues(len(z))
    if isinstance(program.goals, Discrete):
        palette = figures.palette(program.goals.dim)
        colours = [to_hex(palette[int(each)]) for each in z]
        if figures.is_planar(program):
            likeliest = palette[np.asarray(figures.label_map(spec, run))][..., :3]
            ground = Image.fromarray((255 - 80 * (1 - likeliest[::-1])).astype(np.uint8))
    draw = panels.arena(path[..., :2], low, high, colours, targets, ground)
    return Scenes(draw, len(path) - 1, spec.seconds, [_label(program, each) for each in z], colours)


def _foreign(program: Program, run: RunState, z: jax.Array, own: bool, ask: "Request") -> Scenes:
    """Returns scenes of an environment that draws itself, an episode per goal; raises UsageError where it does not.

    `own`: these are the goals that it asks for in the episodes of the seeds 0, 1, …
    """
    config, act = program.config, acting(program, run, ask.noise)
    steps = min(round(ask.seconds / program.spec.seconds), config.horizon)

    def one(obs: np.ndarray, z: Any) -> np.ndarray:
        return program.spec.native(act(obs[None], z[None])[0])

    try:
        seen = [
            gymnasium_film.filmed(config.env, config.env_arg or (), steps, lambda o, g=g: one(o, g), i if own else 0)
            for i, g in enumerate(z)
        ]
    except gymnasium_film.NoPictures as error:
        raise UsageError(
            f"{config.env} cannot be filmed: {error}; valid: one that takes render_mode='rgb_array'"
        ) from None
    labels = [_label(program, each) for each in z]
    return Scenes(panels.pictures([each.pictures for each in seen]), steps, program.spec.seconds, labels, hues(len(z)))


class Request(NamedTuple):
    """What is asked of a film."""

    given: Sequence[Any] | None = None  # goals; None: some that differ
    seconds: float = 8.0
    seed: int | None = None  # whose policy; None: the first
    setting: int | None = None  # of several trained together, counted from 0; None: the first, and a message says so
    tour: bool = False  # one body pursues the goals one after the other
    together: bool = False  # all bodies in one scene, each with its trail
    rendered: bool = False  # by MuJoCo's renderer, else drawn flat
    noise: bool = False  # act with the noise of training


def find_renderer(env: str) -> bool:
    """Returns whether MuJoCo renders this environment here. Call it before MuJoCo is imported and reads MUJOCO_GL."""
    return env in bodies.TASKS and gl.choose_gl()


def check_filmable(config: Config) -> None:
    """Raises UsageError where there is nothing to draw; whether a Gymnasium environment draws itself shows later."""
    if config.native and config.env not in bodies.TASKS and len(config.specification.position) < 2:
        raise UsageError(f"{config.env} cannot be filmed; valid: a point mass of two dimensions or more, or a robot")


def scenes(folder: Path, ask: Request, say: Callable[[str], None]) -> Scenes:
    """Simulates the skills of one seed of a run, and returns what is to be filmed."""
    program, runs, _ = trainer.restore(folder, say)
    config, given = program.config, ask.given
    index = config.find_run(ask.seed, 0 if ask.setting is None else ask.setting)
    if config.swept and ask.setting is None:
        first, *others = config.setting_names
        say(f"filmed: {first}, the first setting; --setting 1 to {len(others)} are the others")
    check_sound(config, runs, index)
    run = one_run(without(runs, "replay", "scene"), index)
    own = given is None and asks_for_goals(program)
    z = desired(program, run, FEW) if own else _chosen(program, run, given, ask.together)
    if config.env in bodies.TASKS:
        return _body(program, run, z, len(z) > FEW and given is None, ask)
    if ask.tour or ask.together:
        asked = "--tour" if ask.tour else "--together"
        raise UsageError(f"{asked}: {config.env} has no robot that goes about; valid: HalfCheetah, Ant, Humanoid")
    if given is None and len(z) > 2 * FEW:
        say(f"filmed: {2 * FEW} of {counted(program.goals.dim, 'skill')}; --skills K1,K2 for others")
        z = z[np.linspace(0, len(z) - 1, 2 * FEW).round().astype(int)]
    if config.native:
        check_filmable(config)
        return _planar(program, runs, index, z, ask)
    return _foreign(program, run, z[:FEW] if given is None else z, own, ask)


def _labelled(scene: Scenes, frame: int, skill: int) -> Image.Image:
    """Returns the picture of a skill at a frame, under a bar with its goal and the time."""
    picture = scene.draw(frame, skill)
    sheet = Image.new("RGB", (picture.width, picture.height + BAR), "#ffffff")
    sheet.paste(picture, (0, BAR))
    pen, font = ImageDraw.Draw(sheet), ImageFont.truetype(FONT, 15)
    pen.text((10, 8), minus(scene.labels[skill]), fill=scene.colours[skill], font=font)
    time = ", ".join(filter(None, (scene.remark, f"{frame * scene.seconds:.1f} s")))
    pen.text((picture.width - 10, 8), time, fill=INK, font=font, anchor="ra")
    return sheet


def _tiled(images: list[Image.Image], across: int) -> Image.Image:
    width, height = images[0].size
    sheet = Image.new("RGB", (width * min(across, len(images)), height * math.ceil(len(images) / across)), "#ffffff")
    for i, image in enumerate(images):
        sheet.paste(image, (width * (i % across), height * (i // across)))
    return sheet


def moments(scene: Scenes) -> range:
    return range(0, scene.steps + 1, max(1, round(1 / FPS / scene.seconds)))


def frames(scene: Scenes) -> Iterator[Image.Image]:
    """Yields the frames one after the other: all of a long film would not fit into memory."""
    skills = range(len(scene.labels))
    return (_tiled([_labelled(scene, t, k) for k in skills], ACROSS) for t in moments(scene))


def _mp4(images: Iterator[Image.Image], fps: float) -> bytes:
    try:
        import imageio_ffmpeg
    except ImportError:
        raise UsageError(f"an .mp4 needs imageio-ffmpeg; valid: {install('film')}, or a .gif") from None
    first = next(images)
    size = 2 * (first.width // 2), 2 * (first.height // 2)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "film.mp4"
        writer = imageio_ffmpeg.write_frames(str(path), size, fps=fps, macro_block_size=2, quality=8)
        with warnings.catch_warnings():  # of threads at a fork, after which it runs another program at once
            warnings.filterwarnings("ignore", r"os\.fork\(\) was called", RuntimeWarning)
            writer.send(None)
        for image in itertools.chain([first], images):
            writer.send(np.ascontiguousarray(np.asarray(image.crop((0, 0, *size)))))
        writer.close()
        return path.read_bytes()


def _encoded(scene: Scenes, kind: str) -> bytes:
    """Returns the bytes of the file; `kind` is its ending: .gif, .mp4 or .png."""
    out = io.BytesIO()
    if kind == ".png":
        shown = np.linspace(0, scene.steps, MOMENTS).round().astype(int)
        sheet = _tiled([_labelled(scene, int(t), k) for k in range(len(scene.labels)) for t in shown], MOMENTS)
        sheet.save(out, format="png")
        return out.getvalue()
    images, pause = frames(scene), moments(scene).step * scene.seconds
    if kind == ".mp4":
        return _mp4(images, 1 / pause)
    first = next(images)
    if first.width * first.height * len(moments(scene)) > LARGEST:
        raise UsageError(f"a .gif of {len(moments(scene)):,} frames is too large; valid: fewer --seconds, or an .mp4")
    few = (image.quantize(64, method=Image.Quantize.FASTOCTREE) for image in itertools.chain([first], images))
    # a .gif counts in hundredths of a second: rounding each moment, not each pause, keeps its time
    pauses = 10 * np.diff(np.round(100 * pause * np.arange(len(moments(scene)) + 1))).astype(int)
    gif = {"save_all": True, "append_images": few, "duration": pauses.tolist(), "loop": 0, "optimize": False}
    next(few).save(out, format="gif", **gif)
    return out.getvalue()


def write(scene: Scenes, path: Path, *, follow: bool = False) -> Path:
    """Writes the film whole or not at all, and returns its path; with `follow` also through a link."""
    path.parent.mkdir(parents=True, exist_ok=True)
    atomic_write(path, _encoded(scene, path.suffix), follow=follow)
    return path


def film(folder: Path, path: Path, ask: Request, say: Callable[[str], None], *, follow: bool = False) -> Path:
    """Films a run folder and returns the path, whose ending says which kind of file; `follow` is that of `write`."""
    if path.suffix not in ENDINGS:
        raise UsageError(f"--out {path} has an unknown ending; valid: {', '.join(ENDINGS)}")
    if not isinstance(ask.seconds, Real) or not 0 < ask.seconds <= 600:
        raise UsageError(f"--seconds {ask.seconds!r} is out of range; valid: a positive number up to 600")
    if path.is_dir():
        raise UsageError(f"--out {path} is a folder; valid: a file")
    if ask.tour and ask.together:
        raise UsageError("--tour and --together exclude each other; valid: one of them")
    env = read_config(folder).env
    renderer = find_renderer(env)
    if env in bodies.TASKS and not renderer:
        if ask.together:
            raise UsageError("--together needs OpenGL, and none renders here (EGL, OSMesa); valid: without it")
        late = "MuJoCo was imported before MUJOCO_GL was set (egl, osmesa)"
        say(f"{late if gl.too_late() else 'no OpenGL renders here (EGL, OSMesa)'}: robots are drawn flat")
    found = scenes(folder, ask._replace(rendered=renderer), say)
    say(f"drawing {counted(MOMENTS if path.suffix == '.png' else len(moments(found)), 'frame')}")
    return write(found._replace(remark="with noise" if ask.noise else ""), path, follow=follow)


def to_tensorboard(folder: Path, gif: Path) -> None:
    """Adds a .gif to the images of a run's TensorBoard events, at the step at which its policy was saved."""
    with Image.open(gif) as picture:
        size = picture.size
    events = Events(folder / "events")
    events.film(steps_done(folder), "film", gif.read_bytes(), size)
    events.close()
