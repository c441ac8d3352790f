"""The evaluations of a run as a table, and as a figure."""

from typing import Any

from vgcrl.errors import UsageError, install
from vgcrl.training.config import KNOBS
from vgcrl.training.fields import knobs_in_words


def rows(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Returns a row for each evaluation and run: step, wall seconds, seed, knobs, and every metric that is one number;
    numbers of training are named `train_NAME`."""
    return [
        {"step": line["step"], "wall": line["wall"], **_numbers(row), **_numbers(row["train"], "train_")}
        for line in lines
        for row in line["seeds"]
    ]


def _numbers(row: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    return {prefix + name: x for name, x in row.items() if not isinstance(x, (dict, list))}


def figure(table: list[dict[str, Any]], metric: str) -> Any:
    """Returns a matplotlib Figure of a metric over environment steps: a line per run, labelled by seed and knobs."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise UsageError(f"plot needs matplotlib; valid: {install('report')}") from None
    known = list(dict.fromkeys(name for row in table for name, x in row.items() if x is not None))
    if metric not in known:
        raise UsageError(f"metric {metric!r} is not in this run; valid: {', '.join(known)}")
    first = table[0]["step"]
    runs = sum(row["step"] == first for row in table)
    made = Figure(figsize=(6, 4), layout="constrained")
    axis = made.subplots()
    swept = [name for name in KNOBS if len({row.get(name) for row in table}) > 1]
    for r in range(runs):
        mine = table[r::runs]
        label = ", ".join([f"seed {mine[0]['seed']}", *knobs_in_words({name: mine[0][name] for name in swept})])
        axis.plot([row["step"] for row in mine], [row[metric] for row in mine], label=label)
    axis.set(xlabel="environment steps", ylabel=metric)
    axis.legend()
    return made
