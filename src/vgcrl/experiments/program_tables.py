"""Tables of what stands behind each program: its sizes, its time, its hardware."""

import json

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
