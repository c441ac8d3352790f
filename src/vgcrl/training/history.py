"""The evaluations of a run as a table, and as a picture."""

from typing import Any

from vgcrl.errors import UsageError, install
from vgcrl.training.config import KNOBS


def rows(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Step, wall seconds, seed and knobs of each run at each evaluation, and every metric that is one number; those of
    training as `train_NAME`."""
    return [
        {"step": line["step"], "wall": line["wall"], **_numbers(row), **_numbers(row["train"], "train_")}
        for line in lines
        for row in line["seeds"]
    ]


def _numbers(row: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    return {prefix + name: x for name, x in row.items() if not isinstance(x, (dict, list))}


def figure(table: list[dict[str, Any]], metric: str) -> Any:
    """A line per run; runs are told apart by what is not a metric."""
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
        label = ", ".join([f"seed {mine[0]['seed']}", *(f"{name} {mine[0][name]:g}" for name in swept)])
        axis.plot([row["step"] for row in mine], [row[metric] for row in mine], label=label)
    axis.set(xlabel="environment steps", ylabel=metric)
    axis.legend()
    return made
