"""DIAYN with and without spectral normalisation on the 2-D point mass: Figure 4 and Table 2 of the paper."""

from functools import partial
from pathlib import Path

import jax
import numpy as np
from matplotlib.figure import Figure

from vgcrl.experiments.experiment import Experiment
from vgcrl.experiments.measured import last_rows, restored
from vgcrl.experiments.paper import paper_rows
from vgcrl.experiments.result_folder import Outcome
from vgcrl.experiments.verdicts import Claim, judge
from vgcrl.measure.statistics import interval
from vgcrl.show.figures import draw_labels, label_map
from vgcrl.show.subplots import subplots
from vgcrl.show.tables import Table, with_interval
from vgcrl.training import run_folder
from vgcrl.training.options import Options
from vgcrl.training.program import one_run

Measures = dict[str, np.ndarray]  # name -> (bound, seed)
Bounds = tuple[float, ...]

SIZES = (10, 20, 50)
CHOSEN = 2.0  # the paper's bound
VECTORISED = "G20-vectorised"
SWEEP = (0.0, 0.5, 0.95, 2.0, 5.0, 7.0)


def runs(quick: bool) -> dict[str, Options]:
    """Returns a program per |G| with one environment and one update per step, as the paper has, and a vectorised one.

    The replay keeps nearly all steps: q without SN would learn a few episodes by heart.
    """
    bounds, hidden, seeds = ((0.0, CHOSEN), (64, 64), 5) if quick else (SWEEP, (128, 128), 5)
    few, many = (8_000, 30_000) if quick else (50_000, 200_000)
    each = partial(Options, "diayn", "pointmass", seeds=seeds, hidden=hidden, spectral_norm=bounds)
    each = partial(each, posterior_learning_rate=(1e-3,))
    slow = partial(each, steps=few, replay=few, envs=1, updates_per_step=1.0)
    return {
        **{f"G{k}": slow(goal_dim=k) for k in (SIZES[:2] if quick else SIZES)},
        VECTORISED: each(steps=many, replay=many, goal_dim=20),
    }


def roughness(labels: np.ndarray) -> float:
    """Returns the share of neighbours on a fine grid over the arena whose labels differ; `labels` is (size, size)."""
    across, along = labels[:, 1:] != labels[:, :-1], labels[1:] != labels[:-1]
    return float((across.sum() + along.sum()) / (across.size + along.size))


def measures(run: Path) -> Measures:
    """Returns F, E[log q], LGR(z), LGR(s) and roughness of a run, each as (bound, seed)."""
    config, rows = run_folder.read_config(run), last_rows(run)
    shape = (len(config.spectral_norm), config.seeds)
    out = {k: np.array([row[k] for row in rows], float).reshape(shape) for k in ("F", "log_q", "lgr_z", "lgr_s")}
    program, runs = restored(run)
    maps = np.asarray(jax.jit(jax.vmap(lambda one: label_map(program.spec, one)))(runs))
    out["roughness"] = np.array([roughness(labels) for labels in maps]).reshape(shape)
    return out


def boundary_figure(run: Path) -> Figure:
    program, runs = restored(run)
    config = program.config
    figure, axes = subplots(1, 2, figsize=(7, 3.6))
    for axis, bound in zip(axes, (0.0, CHOSEN), strict=True):
        draw_labels(axis, program, one_run(runs, config.spectral_norm.index(bound) * config.seeds), 201)
        axis.set(title=f"SN, bound {bound:g}" if bound else "without SN", xlabel="x", ylabel="y")
    figure.suptitle(f"The likeliest of {config.goal_dim} skills at each place, by q of seed {config.seed}", fontsize=10)
    return figure


def sweep_figure(results: dict[str, Measures], bounds: Bounds) -> Figure:
    names = {"log_q": "E[log q]", "lgr_z": "LGR(z)", "lgr_s": "LGR(s)", "roughness": "label changes"}
    figure, axes = subplots(1, 4, figsize=(13, 3))
    for axis, (key, title) in zip(axes, names.items(), strict=True):
        for k, values in results.items():
            x = values[key]
            half = [(lambda ci: (ci[1] - ci[0]) / 2)(interval(v)) for v in x]
            axis.errorbar(range(len(bounds)), x.mean(axis=1), yerr=half, marker="o", capsize=3, label=k)
        axis.set_xticks(range(len(bounds)), ["off" if b == 0 else f"{b:g}" for b in bounds])
        axis.set(title=title, xlabel="bound")
    lines, names = axes[0].get_legend_handles_labels()
    figure.legend(lines, names, loc="outside right upper", title="mean, 95 % interval", title_fontsize=8, fontsize=9)
    return figure


def gain(values: np.ndarray, bounds: Bounds, bound: float = CHOSEN) -> np.ndarray:
    """Returns values (bound, seed) with a bound minus those without, paired by seed, (seed,)."""
    return values[bounds.index(bound)] - values[bounds.index(0.0)]


def best(log_q: np.ndarray, bounds: Bounds) -> str:
    """Returns a phrase: the bound with the highest E[log q], and by how much; or `none`."""
    bound = bounds[int(log_q.mean(axis=1).argmax())]
    more = gain(log_q, bounds, bound)
    return f"SN {bound:g}, by {with_interval(more.mean(), interval(more))}" if bound else "none"


def finding(log_q: dict[str, np.ndarray], bounds: Bounds) -> str:
    few, many = (gain(log_q[name], bounds) for name in ("G20", VECTORISED))
    single = {name[1:]: best(values, bounds) for name, values in log_q.items() if name != VECTORISED}
    return (
        f"The effect depends on the data: at |G| = 20, SN {CHOSEN:g} changes E[log q] by "
        f"{with_interval(few.mean(), interval(few))} with one environment and one update per step, and by "
        f"{with_interval(many.mean(), interval(many))} with 16 environments side by side and 0.125 updates per step. "
        f"Of the bounds tried, looked at afterwards, those that raise E[log q] most: "
        f"{'; '.join(f'|G| = {k}: {reported}' for k, reported in single.items())}."
    )


def claims_of(
    k: int, x: dict[str, np.ndarray], bounds: tuple[float, ...], paper: dict[int, dict[str, str]]
) -> list[Claim]:
    smoother = -0.25 * float(x["roughness"][bounds.index(0.0)].mean())
    claims = [
        Claim(
            f"|G| = {k}: SN makes the boundary of q smoother (label changes, with − without)",
            *judge(gain(x["roughness"], bounds), least=0, full=smoother, higher=False),
            paper="smoother",
        )
    ]
    for name, title, column in (("log_q", "E[log q]", "F"), ("lgr_z", "LGR(z)", "LGR_z")):
        change = float(paper[1][column]) - float(paper[0][column])
        claims.append(
            Claim(
                f"|G| = {k}: SN {'raises' if change > 0 else 'lowers'} {title} (with − without)",
                *judge(gain(x[name], bounds), least=0, full=change / 2, higher=change > 0),
                paper=f"{change:+.2f}",
            )
        )
    return claims


def table_rows(
    title: str, x: dict[str, np.ndarray], bounds: tuple[float, ...], paper: dict[int, dict[str, str]]
) -> list:
    rows = []
    for i, bound in enumerate(bounds):
        known = paper[int(bound > 0)] if paper and bound in (0.0, CHOSEN) else {"F": "–", "LGR_z": "–"}
        f, log_q, lgr_z, lgr_s, rough = (
            with_interval(x[n][i].mean(), interval(x[n][i])) for n in ("F", "log_q", "lgr_z", "lgr_s", "roughness")
        )
        label = f"{title}, {'off' if bound == 0 else f'SN {bound:g}'}"
        rows.append([label, f, log_q, known["F"], lgr_z, known["LGR_z"], lgr_s, rough])
    return rows


def compare(found: dict[str, Path]) -> Outcome:
    results = {name: measures(run) for name, run in found.items()}
    bounds = run_folder.read_config(found["G10"]).spectral_norm
    published = {(int(r["goal_dim"]), int(r["sn"])): r for r in paper_rows("pointmass_sn")}
    sizes = [k for k in SIZES if f"G{k}" in found]
    claims, rows = [], []
    for k in sizes:
        paper = {sn: published[k, sn] for sn in (0, 1)}
        claims += claims_of(k, results[f"G{k}"], bounds, paper)
        rows += table_rows(f"|G| = {k}", results[f"G{k}"], bounds, paper)
    rows += table_rows("|G| = 20, 16 environments", results[VECTORISED], bounds, {})
    columns = ["", "F", "E[log q]", "paper's F", "LGR(z)", "paper's", "LGR(s)", "label changes"]
    sweep = {f"|G| = {k}": results[f"G{k}"] for k in sizes} | {"|G| = 20,\n16 envs": results[VECTORISED]}
    figures = {"Decision boundary": boundary_figure(found["G20"]), "Sweep of bounds": sweep_figure(sweep, bounds)}
    return Outcome(
        claims,
        {"Beside the paper (its F here is E[log q])": Table(columns, rows)},
        figures,
        finding({k: x["log_q"] for k, x in results.items()}, bounds),
    )


EXPERIMENT = Experiment(
    "Spectral normalisation of the discriminator",
    "Bounding the layers of q makes its decision boundary smoother, and at moderate |G| improves F and LGR(z).",
    runs,
    compare,
    paper=True,
)
