"""The registry of experiments, and the one command that runs them."""

from collections.abc import Callable
from pathlib import Path

from vgcrl.experiments import projection, spectral, windy
from vgcrl.experiments.base import Experiment, page, read_page, run_all, save
from vgcrl.report import write

EXPERIMENTS: dict[str, Experiment] = {
    "windy": windy.EXPERIMENT,
    "projection": projection.EXPERIMENT,
    "spectral": spectral.EXPERIMENT,
}


def reproduce(name: str, out: Path, quick: bool, command: list[str], say: Callable[[str], None]) -> Path | None:
    """Runs what is missing, compares, and writes the report; None where the user stopped it."""
    folder = out / (f"{name}-quick" if quick else name)
    experiment = EXPERIMENTS[name]
    say(f"{name}: {experiment.claim}")
    runs = run_all(experiment, folder, quick, say)
    if runs is None:
        say(f"stopped and saved; the same command continues in {folder}")
        return None
    result = save(name, experiment, folder, runs, command)
    for claim in result["claims"]:
        say(f"  {claim['verdict']:>13}: {claim['sentence']}: {claim['measured']:.3f} (paper: {claim['paper']})")
    return write([read_page(folder)], folder / "report.html")


__all__ = ["EXPERIMENTS", "page", "read_page", "reproduce"]
