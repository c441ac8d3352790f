"""The numbers of the paper's tables."""

import csv
from importlib.resources import files


def paper_rows(table: str) -> list[dict[str, str]]:
    text = (files("vgcrl") / "data" / "paper.csv").read_text(encoding="utf-8")
    return [row for row in csv.DictReader(text.splitlines()) if row["table"] == table]
