"""linGCRL behind an unknown projection: Figure 3 of the paper. Each W is a run of one program."""

from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from scipy import stats

from vgcrl.envs import Vectorised
from vgcrl.envs.pointmass import ARENA
from vgcrl.experiments.experiment import Experiment
from vgcrl.experiments.measured import last_rows, restored
from vgcrl.experiments.result_folder import Outcome
from vgcrl.experiments.verdicts import Claim, judge
from vgcrl.measure.rollout import sample_goals, trajectories
from vgcrl.show.subplots import subplots
from vgcrl.show.tables import Table, number
from vgcrl.training.options import Options
from vgcrl.training.program import Program, RunState, one_run


def runs(quick: bool) -> dict[str, Options]:
    seeds = tuple(range(5 if quick else 16))
    each = partial(Options, "lingcrl", "projected-pointmass", projection_seed=seeds, seeds=1)
    steps = 70_000 if quick else 200_000
    return {f"{m}x2": each(projection_dim=m, steps=steps) for m in (2, 10)}


def paths(program: Program, run: RunState, count: int) -> tuple[jax.Array, jax.Array]:
    """Returns goals drawn from the prior, and the observed positions on the way to each, (step, goal, M)."""
    key_goals, key_paths = jax.random.split(run.key_evaluation)
    z = sample_goals(program.goals, key_goals, count)
    env = Vectorised(program.config.build_env(run.knobs), count)
    observed = trajectories(env, partial(program.act, run), z, key_paths)
    return z, observed[..., jnp.array(program.spec.position)]


def marginal_distances(folder: Path) -> list[float]:
    """Returns for each run how far the goals recovered at the end of episodes are from the prior.

    This is the Kolmogorov distance, averaged over dimensions.
    """
    program, runs = restored(folder)

    def recovered(run: RunState) -> jax.Array:
        return paths(program, run, 500)[1][-1] @ run.learner.q.learned()["A"].T

    prior = stats.uniform(-1, 2).cdf
    each = np.asarray(jax.jit(jax.vmap(recovered))(runs))
    return [float(np.mean([stats.kstest(x, prior).statistic for x in z.T])) for z in each]


def spaces_figure(run_folder: Path) -> Figure:
    program, runs = restored(run_folder)
    learned = last_rows(run_folder)[0]["posterior"]
    z, path = map(np.asarray, jax.jit(lambda: paths(program, one_run(runs, 0), 2))())
    return draw_spaces(np.array(learned["A"]), np.array(learned["projection"]), z, path)


def draw_spaces(a: np.ndarray, w: np.ndarray, z: np.ndarray, path: np.ndarray) -> Figure:
    """Draws the arena, what is observed of it and the goal space recovered, with a trajectory for each of two goals."""
    places = path @ np.linalg.pinv(w).T
    goal_places = z @ np.linalg.pinv(a @ w).T
    line = np.linspace(-ARENA, ARENA, 13)
    grid = np.stack(np.meshgrid(line, line), axis=-1)
    figure, axes = subplots(1, 3, figsize=(10, 4))
    panels = (
        ("arena: state s", lambda s: s, "s"),
        (f"observation o = W s, W is {w.shape[0]}×2", lambda s: (s @ w.T)[..., :2], "o"),
        ("recovered goal space: z = A o", lambda s: s @ (a @ w).T, "z"),
    )
    for axis, (title, view, name) in zip(axes, panels, strict=True):
        seen = view(grid)
        for lines in (seen, seen.swapaxes(0, 1)):
            axis.plot(lines[..., 0], lines[..., 1], color="0.8", linewidth=0.8)
        for g, colour in enumerate(("tab:orange", "tab:green")):
            trajectory, goal = view(places[:, g]), view(goal_places[g])
            axis.plot(*trajectory.T, color=colour, linewidth=1.5, label=f"episode {g + 1}")
            axis.plot(*trajectory[0], "o", color="tab:blue", label="start")
            axis.plot(*goal, "x", color=colour, markersize=10, markeredgewidth=3, label=f"goal of episode {g + 1}")
        axis.set(xlabel=f"{name}1", ylabel=f"{name}2")
        axis.set_title(title, fontsize=10)
        axis.set_box_aspect(1)
    for axis in axes[::2]:
        axis.set_aspect("equal", adjustable="datalim")
    axes[2].add_patch(Rectangle((-1, -1), 2, 2, fill=False, linestyle="--", label="prior of goals"))
    handles = dict(zip(*reversed(axes[2].get_legend_handles_labels()), strict=True))
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=6, fontsize=8)
    return figure


def compare(found: dict[str, Path]) -> Outcome:
    claims, rows = [], []
    for name, folder in found.items():
        values = np.array([row["posterior"]["singular_values"] for row in last_rows(folder)])
        ratio = values[:, 1] / values[:, 0]
        claims.append(
            Claim(
                f"W ∈ R^{name}: A·W is a rotation or reflection up to scale (singular values, smaller/larger)",
                *judge(ratio, least=0.5, full=0.8),
                paper="a rotated square",
            )
        )
        distances = marginal_distances(folder)
        claims.append(
            Claim(
                f"W ∈ R^{name}: recovered goals match the uniform prior (Kolmogorov distance, 0 is perfect)",
                *judge(distances, least=0.25, full=0.12, higher=False),
                paper="match",
            )
        )
        for i, row in enumerate(last_rows(folder)):
            condition = np.linalg.cond(np.array(row["posterior"]["projection"]))
            cells = (condition, *values[i], ratio[i], distances[i], row["lgr_z"])
            rows.append([f"{name}, seed {i}", *map(number, cells)])
    columns = ["W", "condition of W", "s1(AW)", "s2(AW)", "s2/s1", "KS to prior", "LGR(z)"]
    figures = {f"Spaces {name}": spaces_figure(folder) for name, folder in found.items()}
    return Outcome(claims, {"Singular values of A·W": Table(columns, rows)}, figures)


EXPERIMENT = Experiment(
    "Random projections: linear GCRL",
    "linGCRL recovers the intrinsic dimensions behind an unknown projection, up to rotation, reflection and scale.",
    runs,
    compare,
    paper=True,
)
