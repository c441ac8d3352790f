"""Where every program is: a live table on a terminal, a line for every change elsewhere."""

from typing import Any

from rich.console import Console
from rich.live import Live
from rich.table import Table

from vgcrl.experiments.scheduling.tasks import Say, Task

COLUMNS = ("program", "state", "node", "steps", "steps/s per run", "time left")
WAITS, RUNS = "waits", "runs"


class View:
    """Facts of a program are `state`, and where known `node`, `attempt`, `step`, `speed`, `left`."""

    def __init__(self, tasks: list[Task], say: Say, console: Console | None = None):
        console = console or Console(stderr=True)
        self._facts: dict[str, dict[str, Any]] = {task.name: {"state": WAITS} for task in tasks}
        self._say, self._shown = say, console.is_terminal
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
            step, speed = (f"{fact[k]:,}" if k in fact else "" for k in ("step", "speed"))
            running = fact["state"] == RUNS
            out.add_row(name, fact["state"], fact.get("node", ""), step, speed, fact.get("left", "") if running else "")
        return out

    def update(self, facts: dict[str, dict[str, Any]]) -> None:
        """What is new of some programs."""
        for name, fact in facts.items():
            before = self._facts[name]
            self._facts[name] = before | fact | ({} if before["state"] in (WAITS, RUNS) else {"state": before["state"]})
            if fact.get("attempt", before.get("attempt")) != before.get("attempt"):
                again = " again, from its last checkpoint" if "attempt" in before else ""
                self._say(f"{name}: runs on {fact['node']}{again}")
        if self._shown:
            self._live.update(self.table(), refresh=True)

    def ended(self, name: str, state: str, why: str) -> None:
        self._facts[name] |= {"state": state}
        count = sum(fact["state"] not in (WAITS, RUNS) for fact in self._facts.values())
        self._say(f"[{count}/{len(self._facts)}] {name}: {state}{f': {why}' if why else ''}")
