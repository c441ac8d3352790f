"""DIAYN with and without spectral normalisation on the 2-D point mass: Figure 4 and Table 2 of the paper."""

from functools import partial
from pathlib import Path

import jax
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from vgcrl import training
from vgcrl.config import Config
from vgcrl.experiments.base import Claim, Experiment, Outcome, judge, last_rows, member, paper_rows, restored
from vgcrl.figures import draw_labels, label_map
from vgcrl.metrics import interval
from vgcrl.report import Table, with_interval

SIZES = (10, 20, 50)
CHOSEN = 2.0  # the paper's bound
SWEEP = (0.0, 0.5, 0.95, 2.0, 5.0, 7.0)


def runs(quick: bool) -> dict[str, Config]:
    bounds = (0.0, CHOSEN) if quick else SWEEP
    hidden, steps, seeds = ((64, 64), 40_000, 5) if quick else ((128, 128), 500_000, 10)
    each = partial(Config, "diayn", "pointmass", steps, seeds, hidden=hidden, spectral_norm=bounds)
    return {f"G{k}": each(goal_dim=k) for k in SIZES}


def roughness(labels: np.ndarray) -> float:
    """Share of neighbours on a fine grid over the arena whose labels differ."""
    across, along = labels[:, 1:] != labels[:, :-1], labels[1:] != labels[:-1]
    return float((across.sum() + along.sum()) / (across.size + along.size))


def measures(run: Path) -> dict[str, np.ndarray]:
    """Each number as (bound, seed)."""
    config, rows = training.read_config(run), last_rows(run)
    shape = (len(config.spectral_norm), config.seeds)
    out = {k: np.array([row[k] for row in rows]).reshape(shape) for k in ("F", "log_q", "lgr_z", "lgr_s")}
    program, runs = restored(run)
    maps = np.asarray(jax.jit(jax.vmap(lambda one: label_map(program, one)))(runs))
    out["roughness"] = np.array([roughness(labels) for labels in maps]).reshape(shape)
    return out


def boundary_figure(run: Path) -> Figure:
    program, runs = restored(run)
    config = program.config
    figure, axes = plt.subplots(1, 2, figsize=(7, 3.6), layout="constrained")
    for axis, bound in zip(axes, (0.0, CHOSEN), strict=True):
        draw_labels(axis, program, member(runs, config.spectral_norm.index(bound) * config.seeds), 201)
        axis.set_title(f"SN, bound {bound:g}" if bound else "without SN")
    return figure


def sweep_figure(results: dict[str, dict[str, np.ndarray]], bounds: tuple[float, ...]) -> Figure:
    names = {"log_q": "E[log q]", "lgr_z": "LGR(z)", "lgr_s": "LGR(s)", "roughness": "label changes"}
    figure, axes = plt.subplots(1, 4, figsize=(13, 3), layout="constrained")
    for axis, (key, title) in zip(axes, names.items(), strict=True):
        for k, values in results.items():
            x = values[key]
            half = [(lambda ci: (ci[1] - ci[0]) / 2)(interval(v)) for v in x]
            axis.errorbar(range(len(bounds)), x.mean(axis=1), yerr=half, marker="o", capsize=3, label=f"|G| = {k[1:]}")
        axis.set_xticks(range(len(bounds)), ["off" if b == 0 else f"{b:g}" for b in bounds])
        axis.set(title=title, xlabel="bound")
    axes[0].legend()
    return figure


def compare(found: dict[str, Path]) -> Outcome:
    results = {k: measures(run) for k, run in found.items()}
    bounds = training.read_config(found["G10"]).spectral_norm
    off, on = bounds.index(0.0), bounds.index(CHOSEN)
    published = {(int(r["goal_dim"]), int(r["sn"])): r for r in paper_rows("pointmass_sn")}
    claims, rows = [], []
    for k in SIZES:
        x = results[f"G{k}"]
        paper = {sn: published[k, sn] for sn in (0, 1)}

        def gain(name: str, x: dict[str, np.ndarray] = x) -> np.ndarray:
            """With minus without, paired by seed."""
            return x[name][on] - x[name][off]

        half = -0.25 * float(x["roughness"][off].mean())
        claims.append(
            Claim(
                f"|G| = {k}: SN makes the boundary of q smoother (label changes, with − without)",
                *judge(gain("roughness"), least=0, full=half, higher=False),
                paper="smoother",
            )
        )
        for name, column in (("log_q", "F"), ("lgr_z", "LGR_z")):
            difference = float(paper[1][column]) - float(paper[0][column])
            claims.append(
                Claim(
                    f"|G| = {k}: SN changes {name} as in the paper (with − without)",
                    *judge(gain(name), least=0, full=difference / 2, higher=difference > 0),
                    paper=f"{difference:+.2f}",
                )
            )
        for i, bound in enumerate(bounds):
            row = paper[int(bound > 0)] if bound in (0.0, CHOSEN) else None
            ours = [
                with_interval(x[n][i].mean(), interval(x[n][i])) for n in ("F", "log_q", "lgr_z", "lgr_s", "roughness")
            ]
            label = f"|G| = {k}, {'off' if bound == 0 else f'SN {bound:g}'}"
            rows.append([label, *ours[:2], row["F"] if row else "–", ours[2], row["LGR_z"] if row else "–", *ours[3:]])
    columns = ["", "F", "E[log q]", "paper's F", "LGR(z)", "paper's", "LGR(s)", "label changes"]
    figures = {"Decision boundary": boundary_figure(found["G20"]), "Sweep of bounds": sweep_figure(results, bounds)}
    return Outcome(claims, {"Beside the paper (its F here is E[log q])": Table(columns, rows)}, figures)


EXPERIMENT = Experiment(
    "Spectral normalisation of the discriminator",
    "Bounding the layers of q makes its decision boundary smoother, and at moderate |G| improves F and LGR(z).",
    runs,
    compare,
)
