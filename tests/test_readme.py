"""Numbers with an interval in tables of the README are rows of the reports under results/, which are generated."""

from pathlib import Path

ROOT = Path(__file__).parents[1]


def rows(path):
    return [line for line in path.read_text().splitlines() if line.startswith("|") and "±" in line]


def test_rows_of_the_readme_are_rows_of_the_reports():
    generated = {row for path in ROOT.glob("results/*/README.md") for row in rows(path)}
    assert generated
    assert [row for row in rows(ROOT / "README.md") if row not in generated] == []
