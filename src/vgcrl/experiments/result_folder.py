"""Writes the folder of an experiment's result: all that a reader needs, small enough to commit."""

from pathlib import Path
from typing import Any, NamedTuple

from matplotlib.figure import Figure

from vgcrl.experiments.measured import ProgramFacts
from vgcrl.experiments.result_page import link, read_page, slug
from vgcrl.experiments.scheduling import Say
from vgcrl.experiments.verdicts import Claim, tally
from vgcrl.files import atomic_write
from vgcrl.show.report import markdown, png, svg, write
from vgcrl.show.tables import Table, with_interval
from vgcrl.training import logs, summary


class Outcome(NamedTuple):
    claims: list[Claim]
    tables: dict[str, Table]
    figures: dict[str, Figure]
    finding: str = ""  # what was found where an effect is weaker than the paper's, in numbers


def save(folder: Path, result: dict[str, Any], figures: dict[str, Figure]) -> None:
    """Writes result.json, and one SVG and one PNG per figure."""
    atomic_write(folder / "result.json", logs.to_json(result, indent=1) + "\n")
    for title, figure in figures.items():
        atomic_write(folder / f"{slug(title)}.png", png(figure, dpi=110))
        atomic_write(folder / f"{slug(title)}.svg", svg(figure))


def write_result(
    folder: Path, about: dict[str, str], outcome: Outcome, programs: dict[str, ProgramFacts], say: Say, **more: Any
) -> Path:
    """Writes all that a reader needs, small enough to commit, says the verdicts, and returns the path of the report.

    `about` has the first entries of the result: experiment, title, claim and command.
    """
    result = about | {
        "hardware": "; ".join(dict.fromkeys(each["hardware"] for each in programs.values())),
        "versions": summary.versions(),
        "claims": [claim._asdict() for claim in outcome.claims],
        "tables": {title: table._asdict() for title, table in outcome.tables.items()},
        "finding": outcome.finding,
        "figures": list(outcome.figures),
        "programs": programs,
        **more,
    }
    save(folder, result, outcome.figures)
    for claim in outcome.claims:
        measured = with_interval(claim.measured, claim.ci95)
        say(f"  {claim.verdict:>13}: {claim.sentence}: {measured} (paper: {claim.paper})")
    if outcome.claims:
        say(tally([claim.verdict for claim in outcome.claims]))
    atomic_write(folder / "README.md", markdown(read_page(folder, link)))  # what a forge shows of the folder
    return write([read_page(folder)], folder / "report.html")
