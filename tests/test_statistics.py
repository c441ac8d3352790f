"""Intervals against scipy, and rows that share their seeds."""

import numpy as np
import pytest
from scipy import stats

from vgcrl.experiments.verdicts import NOT_TESTED, judge
from vgcrl.measure.statistics import difference, interval, mean_over_rows


def test_intervals_are_of_students_t():
    x = np.random.default_rng(0).normal(3.0, 2.0, 5)
    assert interval(x) == pytest.approx(stats.ttest_1samp(x, 0.0).confidence_interval())
    assert interval([1.0]) is None
    assert interval([2.0, 2.0]) == [2.0, 2.0]


def test_differences_are_welchs():
    x, y = np.random.default_rng(0).normal(3.0, 2.0, 5), np.random.default_rng(1).normal(1.0, 0.1, 3)
    mean, ci = difference(x, y)
    assert mean == pytest.approx(x.mean() - y.mean())
    assert ci == pytest.approx(stats.ttest_ind(x, y, equal_var=False).confidence_interval())
    assert difference([1.0, 2.0], [3.0]) == (-1.5, None)
    assert difference([2.0, 2.0], [1.0, 1.0]) == (1.0, [1.0, 1.0])
    assert difference([2.0, np.nan], [1.0, 1.0]) == (None, None)


def test_rows_that_share_their_seeds_are_averaged_seed_by_seed():
    """What a seed does to every row does not average out: the interval is as wide as that of one row."""
    of_seed = {0: 0.1, 1: 0.5, 2: 0.3}
    rows = [{seed: level + x for seed, x in of_seed.items()} for level in (0.0, 10.0, -4.0)]
    np.testing.assert_allclose(mean_over_rows(rows), np.array([0.1, 0.5, 0.3]) + 2.0)
    low, high = interval(mean_over_rows(rows))
    one_low, one_high = interval([*of_seed.values()])
    assert high - low == pytest.approx(one_high - one_low)


def test_only_seeds_that_every_row_has():
    rows = [{0: 1.0, 1: 2.0, 2: 3.0}, {2: 5.0, 1: 4.0}]
    assert mean_over_rows(rows).tolist() == [3.0, 4.0]
    assert mean_over_rows([{0: 1.0}, {1: 1.0}]).size == 0


def test_a_lost_seed_is_no_verdict():
    verdict, _, ci = judge([1.0, np.nan, 1.1], least=0, full=0)
    assert (verdict, ci) == (NOT_TESTED, None)
