"""The file of a search: a line for each combination, in the order they were tried."""

import json
from pathlib import Path
from typing import Any

from vgcrl.experiments.scheduling.worker import trial_name

TRIALS = "trials.jsonl"


def tried(folder: Path) -> list[dict[str, Any]]:
    path = folder / TRIALS
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def tried_names(folder: Path) -> list[str]:
    """Of their programs."""
    return [trial_name(values) for values in tried(folder)]
