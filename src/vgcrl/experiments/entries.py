"""Rows of a table with the numbers of their seeds."""

from typing import Any, NamedTuple

import numpy as np

from vgcrl.experiments.cells import Cell, Job, Row

COLUMNS = {"F": "F", "lgr_z": "LGR_z", "lgr_v": "LGR_v", "lgr_s": "LGR_s"}  # ours -> the paper's
POSTERIORS = {"categorical": "", "gaussian_fixed": "fixed σ", "gaussian_learned": "learned σ", "gmm8": "mixture of 8"}
TECHNIQUES = {"p_her": "P-HER", "sn": "SN"}


class Entry(NamedTuple):
    """A row of the table, and the cell with the numbers of its seeds where it has been run."""

    row: Row
    job: Job
    setting: int
    cell: Cell | None

    @property
    def published(self) -> bool:
        return "F" in self.row

    def values(self, metric: str) -> np.ndarray:
        """Returns the metric of each seed; empty where the row was not run or the environment lacks the metric."""
        final = self.cell["final"] if self.cell else {}
        return np.array(final[metric][self.setting] if metric in final else [], float)

    @property
    def seeds(self) -> list[int]:
        """The seeds of `values`, in the same order."""
        return self.cell["seeds"] if self.cell else []

    @property
    def targets(self) -> dict[str, Any]:
        """Facts about the target states: their `count`, and the share of experts that `missed` their velocity."""
        return {"missed": 0.0} | (self.cell["targets"] if self.cell else {"count": 0})

    @property
    def unfinished(self) -> bool:
        """Whether the row was run, but not to its end."""
        return self.cell is not None and not is_finished(self.cell)

    def paper(self, metric: str) -> float | None:
        return float(self.row[COLUMNS[metric]]) if self.published and metric in COLUMNS else None


def entries(jobs: list[Job], cells: dict[str, Cell]) -> list[Entry]:
    return [Entry(row, job, i, cells.get(job.name)) for job in jobs for i, row in enumerate(job.rows)]


def technique(row: Row) -> str:
    words = [POSTERIORS[row["posterior"]], *(TECHNIQUES[knob] for knob in ("sn", "p_her") if row[knob] == "1")]
    return " + ".join(w for w in words if w) or "plain"


def of_bodies(rows: list[Entry]) -> dict[str, list[Entry]]:
    return {env: [e for e in rows if e.row["env"] == env] for env in dict.fromkeys(e.row["env"] for e in rows)}


def is_finished(cell: Cell) -> bool:
    return cell.get("finished", True)


def so_far(cell: Cell) -> str:
    return "" if is_finished(cell) else ", unfinished"
