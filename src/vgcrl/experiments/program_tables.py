"""Tables of what stands behind each program: its sizes, its time, its hardware."""

import json

from vgcrl.experiments.cells import Cell, Job
from vgcrl.experiments.entries import so_far
from vgcrl.experiments.marks import NOT_RUN
from vgcrl.experiments.measured import ProgramFacts
from vgcrl.show.tables import Table
from vgcrl.training.config import Config

BEHIND = "What stands behind each program"


def sizes_and_minutes(programs: dict[str, ProgramFacts]) -> Table:
    """Returns a table of the settings, seeds, steps and minutes of each program."""
    rows = []
    for name, facts in programs.items():
        config = Config.from_json(json.dumps(facts["config"]))
        swept = f" of {', '.join(config.swept).replace('_', ' ')}" if config.swept else ""
        numbers = (config.seeds, f"{facts['steps']:,}", config.envs, f"{config.updates_per_step:g}")
        rows.append([name, f"{len(config.settings)}{swept}", *map(str, numbers), f"{facts['wall_seconds'] / 60:.1f}"])
    heads = ["program", "settings", "seeds of each", "steps", "environments", "updates per step", "minutes"]
    return Table(heads, rows)


def sizes_and_hardware(jobs: list[Job], cells: dict[str, Cell]) -> Table:
    """Returns a table of the sizes, the time, the engine, the hardware and the versions of each program."""
    rows = []
    for job in jobs:
        c = cells.get(job.name)
        if c is None:
            rows.append([job.name, str(len(job.rows)), NOT_RUN, *["–"] * 9])
            continue
        numbers = (
            f"{c['steps']:,}{so_far(c)}",
            len(c["seeds"]),
            c["envs"],
            f"{c['updates_per_step']:g}",
            c["episodes"],
            c["targets"]["count"],
            f"{c['wall_seconds'] / 60:.1f}",
            f"{c['minutes_per_row']:.1f}",
        )
        trained_by = (engine_of(c), f"{hardware_of(c)}; {versions_of(c)}")
        rows.append([job.name, str(len(job.rows)), *map(str, numbers), *trained_by])
    heads = ["program", "rows", "steps", "seeds", "environments", "updates per step", "episodes", "targets"]
    return Table([*heads, "minutes", "minutes per row", "engine", "hardware and versions"], rows)


def hardware_of(cell: Cell) -> str:
    """Returns the machine that trained a program, and that of its last evaluation if it was another."""
    trained = cell["hardware"]
    last = cell.get("measured_on", trained)
    return trained if last == trained else f"{trained}, measured on {last}"


def engine_of(cell: Cell) -> str:
    """Returns the simulator that trained a program, how, and that of its last evaluation if it was another."""
    trained = cell["config"]["engine"]
    last = cell.get("measured_by", trained)
    how = ", fast physics" * (cell["config"].get("physics") == "fast")
    how += ", episodes end with a fall" * bool(cell["config"].get("terminate"))
    return trained + how if last == trained else f"{trained}{how}, measured by {last}"


def versions_of(cell: Cell) -> str:
    """Returns the versions of the software that trained a program."""
    return ", ".join(f"{k} {v}" for k, v in cell["versions"].items()) or "versions not recorded"
