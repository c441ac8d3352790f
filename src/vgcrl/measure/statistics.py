"""Confidence intervals of means over seeds."""

from collections.abc import Sequence
from typing import Any

import numpy as np


def interval(values: Any) -> list[float] | None:
    """Returns the 95 % Student interval [low, high] of the mean over independent runs, or None for fewer than two.

    `values` has one number per seed. Rows that share their seeds are not independent runs: average them by
    `mean_over_rows` first.
    """
    x = np.asarray(values, np.float64)
    if len(x) < 2:
        return None
    from scipy import stats  # takes a second

    half = stats.t.ppf(0.975, len(x) - 1) * x.std(ddof=1) / np.sqrt(len(x))
    return [float(x.mean() - half), float(x.mean() + half)]


def difference(one: Any, other: Any) -> tuple[float | None, list[float] | None]:
    """Returns by how much the mean of `one` exceeds that of `other`, and Welch's 95 % interval of the difference.

    Both have one number per independent run. The difference is None where a number is not finite, the interval where
    either has fewer than two numbers.
    """
    x, y = (np.asarray(values, np.float64) for values in (one, other))
    mean = float(x.mean() - y.mean())
    if not np.isfinite(mean):
        return None, None
    if min(len(x), len(y)) < 2:
        return mean, None
    from scipy import stats

    errors = np.array([x.var(ddof=1) / len(x), y.var(ddof=1) / len(y)])  # squared standard errors of both means
    if not errors.any():
        return mean, [mean, mean]
    freedom = errors.sum() ** 2 / np.sum(errors**2 / (len(x) - 1, len(y) - 1))
    half = float(stats.t.ppf(0.975, freedom) * np.sqrt(errors.sum()))
    return mean, [mean - half, mean + half]


def mean_over_rows(rows: Sequence[dict[int, float]]) -> np.ndarray:
    """Returns the mean over rows (seed -> value) for each seed that every row has, in the order of the seeds."""
    shared = sorted(set.intersection(*map(set, rows))) if rows else []
    return np.array([np.mean([row[seed] for row in rows]) for seed in shared])
