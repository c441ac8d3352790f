"""What `vgcrl train --help` shows where no method or environment is named, kept in a file so that it needs no JAX.

A test compares the file with the options. After they change, run `python tools/write_help.py`.
"""

import json
from importlib.resources import files
from pathlib import Path

from vgcrl.training.fields import HelpLine

PLAIN = {"method": "diayn", "env": "pointmass"}  # what `vgcrl train` trains
FILE = Path(str(files("vgcrl") / "data" / "train-help.json"))


def read_plain_help() -> dict[str, list[HelpLine]]:
    """Returns the lines of each group, read from the file."""
    found = json.loads(FILE.read_text(encoding="utf-8"))
    return {title: [HelpLine(*line) for line in lines] for title, lines in found.items()}


def plain_help() -> dict[str, list[HelpLine]]:
    """Returns the lines of each group made from the options themselves, which imports JAX."""
    from vgcrl.training.option_groups import help_lines, values_for
    from vgcrl.training.options import Options

    return help_lines(values_for(Options(**PLAIN)))
