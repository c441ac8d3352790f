"""Shows how far every program is: a live table on a terminal, a line for every change elsewhere."""

from collections.abc import Iterable
from typing import Any

from rich.live import Live
from rich.table import Table

from vgcrl.experiments.scheduling.tasks import Say
from vgcrl.experiments.scheduling.worker import MEASURED, Facts
from vgcrl.training.display import terminal

COLUMNS = ("program", "state", "node", "steps", "steps/s per run", "seconds left")


class View:
    """Shows programs whose names are known at the start, or `total` of them that tell their names later."""

    def __init__(self, names: Iterable[str], say: Say, total: int | None = None):
        self._facts: dict[str, Facts] = {name: {} for name in names}
        self._ended: dict[str, str] = {}  # name -> how
        self._say, self._total, self._console = say, total or len(self._facts), terminal()
        self._live = Live(console=self._console, auto_refresh=False, transient=True)

    def __enter__(self) -> "View":
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self._live.stop()

    def table(self) -> Table:
        out = Table(*COLUMNS)
        for name, facts in self._facts.items():
            ended = self._ended.get(name)
            numbers = [f"{facts[what]:,}" if what in facts else "" for what in (MEASURED[:2] if ended else MEASURED)]
            out.add_row(name, ended or ("runs" if "node" in facts else "waits"), facts.get("node", ""), *numbers)
        return out

    def update(self, told: Iterable[tuple[str, Facts]]) -> None:
        """Shows what programs told since the last call, in the order in which they did."""
        for name, facts in told:
            before = self._facts.setdefault(name, {})
            if "node" in facts:
                again = " again, from its last checkpoint" if "node" in before else ""
                self._say(f"{name}: runs on {facts['node']}{again}")
            before.update(facts)
        if self._console.is_terminal:
            self._live.update(self.table(), refresh=True)

    def ended(self, name: str, state: str, why: str) -> None:
        self._ended[name] = state
        self._say(f"[{len(self._ended)}/{self._total}] {name}: {state}{f': {why}' if why else ''}")
