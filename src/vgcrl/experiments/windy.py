"""Adaptive variance on the windy point mass: Figure 2 of the paper.

GCRL is aGCRL whose Σ does not learn: one program trains both, with two learning rates of q.
"""

from functools import partial
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from scipy import stats

from vgcrl.envs.pointmass import paper_wind
from vgcrl.experiments.experiment import Experiment
from vgcrl.experiments.measured import curve, last_rows
from vgcrl.experiments.result_folder import Outcome
from vgcrl.experiments.verdicts import Claim, judge
from vgcrl.measure.statistics import interval
from vgcrl.show.subplots import mark_steps, subplots
from vgcrl.show.tables import Table, number, with_interval
from vgcrl.training import run_folder
from vgcrl.training.options import Options

PAPER_SIGMA = (0.368, 1.648)
RATE = 5e-3  # learning rate of Σ


def runs(quick: bool) -> dict[str, Options]:
    seeds = 5 if quick else 10
    both = partial(Options, "agcrl", "windy-pointmass", posterior_learning_rate=(RATE, 0.0), seeds=seeds)
    return {
        "2d": both(dims=2, steps=30_000 if quick else 100_000),
        "10d": both(dims=10, steps=50_000 if quick else 400_000),
    }


def split(run: Path, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Splits the last axis, runs, into those of aGCRL and those of GCRL."""
    half = run_folder.read_config(run).seeds
    return values[..., :half], values[..., half:]


def sigmas(run: Path) -> np.ndarray:
    """Returns the learned σ of each aGCRL run, (seed, dimension)."""
    rows = last_rows(run)
    return np.array([row["posterior"]["sigma"] for row in rows[: run_folder.read_config(run).seeds]])


def errors(run: Path, dim: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns steps, and for aGCRL and GCRL the squared error in one dimension, (evaluation, seed).

    The error is the distance to the goal at the end of an episode.
    """
    steps, values = curve(run, lambda row: row["error"][dim])
    return steps, *split(run, values)


def area(run: Path, dim: int) -> list[np.ndarray]:
    """Returns the mean error over training for aGCRL and for GCRL, each (seed,)."""
    steps, *both = errors(run, dim)
    return [np.trapezoid(x, steps, axis=0) / steps[-1] for x in both]


def sigma_figure(found: dict[str, Path]) -> Figure:
    figure, axes = subplots(1, 2, figsize=(9, 3), width_ratios=(1, 3))
    for axis, (name, run) in zip(axes, found.items(), strict=True):
        sigma = sigmas(run)
        half = [(lambda ci: (ci[1] - ci[0]) / 2)(interval(s)) for s in sigma.T]
        axis.bar(range(sigma.shape[1]), sigma.mean(axis=0), yerr=half, color="tab:blue", alpha=0.8, capsize=3)
        wind = paper_wind(sigma.shape[1])
        axis.set_xticks(range(len(wind)), [f"{w:g}" for w in wind])
        axis.set(title=f"{name}, mean and 95 % interval", xlabel="range of the wind on each dimension")
        axis.set_ylabel("learned σ")
    return figure


def error_figure(run: Path) -> Figure:
    figure, axes = subplots(1, 2, figsize=(9, 3))
    dims = len(run_folder.read_config(run).wind or ())
    for axis, dim, what in zip(axes, (0, dims - 1), ("calmest", "windiest"), strict=True):
        steps, *both = errors(run, dim)
        for label, values, colour in zip(("aGCRL", "GCRL"), both, ("tab:blue", "tab:orange"), strict=True):
            low, high = np.array([interval(v) for v in values]).T
            axis.plot(steps, values.mean(axis=1), color=colour, label=label)
            axis.fill_between(steps, low, high, color=colour, alpha=0.2, linewidth=0)
        mark_steps(axis)
        axis.set(title=f"{dims}d, {what} dimension ({dim})", xlabel="environment steps", ylabel="squared error")
        axis.set_ylim(bottom=0)
    lines, names = axes[0].get_legend_handles_labels()
    figure.legend(lines, names, loc="outside right upper", title="mean and 95 % interval", title_fontsize=8)
    return figure


def compare(found: dict[str, Path]) -> Outcome:
    two, ten = sigmas(found["2d"]), sigmas(found["10d"])
    paper_ratio = PAPER_SIGMA[1] / PAPER_SIGMA[0]
    ranks = [stats.spearmanr(paper_wind(ten.shape[1]), s).statistic for s in ten]
    claims = [
        Claim(
            "2d: σ is larger on the windy dimension (ratio windy/calm)",
            *judge(two[:, 1] / two[:, 0], least=1, full=paper_ratio / 2),
            paper=f"{paper_ratio:.1f}",
        ),
        Claim("10d: σ grows with the wind (rank correlation)", *judge(ranks, least=0.5, full=0.9)),
    ]
    for name, run in found.items():
        ours, baseline = area(run, 0)
        claims.append(
            Claim(
                f"{name}: aGCRL reaches the calm dimension's goal sooner (area under the error, aGCRL − GCRL)",
                *judge(ours - baseline, least=0, full=-0.1 * baseline.mean(), higher=False),
                paper="sooner" if name == "10d" else "–",
            )
        )
    rows = [
        [
            f"{s.shape[1]}d, wind {w:g}",
            with_interval(column.mean(), interval(column)),
            paper,
        ]
        for s in (two, ten)
        for i, (w, column) in enumerate(zip(paper_wind(s.shape[1]), s.T, strict=True))
        for paper in [number(PAPER_SIGMA[i]) if s is two else "–"]
    ]
    tables = {"Learned σ": Table(["dimension", "ours", "paper"], rows)}
    return Outcome(
        claims, tables, {"Learned sigma": sigma_figure(found), "Error over training": error_figure(found["10d"])}
    )


EXPERIMENT = Experiment(
    "Windy point mass: adaptive variance",
    "aGCRL learns a large variance where it has no control, and reaches goals in other dimensions sooner than GCRL.",
    runs,
    compare,
    paper=True,
)
