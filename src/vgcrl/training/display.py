"""The progress of a run on the terminal."""

import math
import sys
import time
from contextlib import suppress
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

SILENCE = 60.0  # seconds without a line, at most, where there is no terminal


class _Console(Console):
    """A console whose reader may go: rich would end the process."""

    def on_broken_pipe(self) -> None:
        self.quiet = True


def terminal() -> Console:
    """Returns a console that shows text as it is: names and paths may contain what rich takes for markup or emoji."""
    return _Console(stderr=True, markup=False, emoji=False, highlight=False)


class Display:
    """A progress bar on a terminal, elsewhere a line per evaluation and per minute; nothing if `quiet`.

    Of several settings it shows the mean. Where nobody can be told, the terminal closed or the reader of a pipe gone,
    training goes on or is saved all the same.
    """

    def __init__(self, title: str, total: int, quiet: bool = False, settings: int = 1):
        self._of = f"mean of {settings} settings: " if settings > 1 else ""
        self._console = terminal()
        self._plain = not quiet and not self._console.is_terminal
        self._text, self._speed, self._total = "", 0.0, total
        self._told = time.monotonic()
        self._bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=10),
            TextColumn("{task.percentage:.0f}% {task.fields[text]}", markup=False),
            TimeRemainingColumn(),
            TextColumn("left"),
            console=self._console,
            disable=quiet or self._plain,
        )
        self._task = self._bar.add_task(title, total=total, text="compiling")

    def __enter__(self) -> "Display":
        self._bar.start()
        return self

    def __exit__(self, *_: Any) -> None:
        with suppress(OSError):
            self._bar.stop()

    def advance(self, step: int, speed: float, collecting: bool = False) -> None:
        """Show the step and the speed in steps/s; `collecting`: of random steps, before learning begins."""
        self._speed = speed
        what = "collecting random steps" if collecting else self._text
        self._bar.update(self._task, completed=step, text=f"{speed:,.0f} steps/s {what}")
        if time.monotonic() - self._told >= SILENCE:
            self._line(step, "collecting random steps" if collecting else "")

    def evaluated(self, step: int, mean: dict[str, float]) -> None:
        """Show the metrics of an evaluation."""
        own = mean.get("env_success")
        succeeded = "" if own is None else f" env success {own:.2f}"
        self._text = f"{self._of}F {mean['F']:.2f} LGR(z) {mean['lgr_z']:.3f}{succeeded}"
        self._bar.update(self._task, completed=step, text=f"{self._speed:,.0f} steps/s {self._text}")
        self._line(step, self._text)

    def _line(self, step: int, text: str) -> None:
        if self._plain:
            left = max(0, self._total - step) / self._speed if self._speed else math.nan
            eta = f"{left:.0f} s left" if math.isfinite(left) else "starting"
            line = f"step {step:>9,}  {self._speed:>7,.0f} steps/s per run  {eta:>12}  {text}".rstrip()
            with suppress(OSError):
                print(line, file=sys.stderr, flush=True)
            self._told = time.monotonic()

    def note(self, text: str) -> None:
        """Print a line of text."""
        with suppress(OSError):
            self._console.print(text, soft_wrap=True)
