"""Where every program is: a live table on a terminal, a line for every change elsewhere."""

from collections.abc import Iterable
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.table import Table

from vgcrl.experiments.scheduling.tasks import Say
from vgcrl.experiments.scheduling.worker import MEASURED, Facts

COLUMNS = ("program", "state", "node", "steps", "steps/s per run", "seconds left")
WAITS, RUNS = "waits", "runs"


class View:
    """Of programs whose names are known at once, or of so many that will be heard of."""

    def __init__(self, names: Iterable[str], say: Say, total: int | None = None):
        console = Console(stderr=True)
        self._facts: dict[str, Facts] = {name: {"state": WAITS} for name in names}
        self._say, self._shown, self._total = say, console.is_terminal, total or len(self._facts)
        self._live = Live(self.table(), console=console, auto_refresh=False, transient=True)

    def __enter__(self) -> "View":
        if self._shown:
            self._live.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self._live.stop()

    def table(self) -> Table:
        out = Table(*COLUMNS)
        for name, fact in self._facts.items():
            shown = MEASURED if fact["state"] == RUNS else MEASURED[:2]
            numbers = [f"{fact[what]:,}" if what in fact else "" for what in shown]
            out.add_row(name, fact["state"], fact.get("node", ""), *numbers)
        return out

    def update(self, facts: dict[str, Facts]) -> None:
        """What is new of some programs."""
        for name, fact in facts.items():
            before = self._facts.get(name, {"state": WAITS})
            ended = {"state": before["state"]} if before["state"] not in (WAITS, RUNS) else {}
            self._facts[name] = before | fact | ended
            if fact.get("attempt", before.get("attempt")) != before.get("attempt"):
                again = " again, from its last checkpoint" if "attempt" in before else ""
                self._say(f"{name}: runs on {fact['node']}{again}")
        if self._shown:
            self._live.update(self.table(), refresh=True)

    def ended(self, name: str, state: str, why: str) -> None:
        self._facts[name] = self._facts.get(name, {}) | {"state": state}
        count = sum(fact["state"] not in (WAITS, RUNS) for fact in self._facts.values())
        self._say(f"[{count}/{self._total}] {name}: {state}{f': {why}' if why else ''}")
