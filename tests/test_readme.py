"""Numbers of the README are those of the reports under results/, which are generated."""

import json
import re
from pathlib import Path

from vgcrl.experiments.discrete import ASIDES
from vgcrl.objective.methods import METHODS

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
TABLES = {
    name: json.loads((ROOT / "results" / name / "result.json").read_text()) for name in ("discrete", "continuous")
}


def rows(text):
    return [line for line in text.splitlines() if line.startswith("|") and "±" in line]


def test_rows_of_the_readme_are_rows_of_the_reports():
    generated = {row for path in ROOT.glob("results/*/README.md") for row in rows(path.read_text())}
    assert generated
    assert [row for row in rows(README) if row not in generated] == []


def test_intervals_in_a_result_are_in_its_report():
    found = 0
    for text in re.findall(r"^- \[.*?(?=^- |^#|\Z)", README, re.M | re.S):
        folder = re.search(r"\]\((results/\w+)\)", text)
        intervals = re.findall(r"\d+\.\d+ ± \d+\.\d+", text)
        if folder and intervals:
            report = (ROOT / folder[1] / "README.md").read_text()
            assert [x for x in intervals if x not in report] == [], folder[1]
            found += len(intervals)
    assert found >= 3


def test_what_is_said_of_the_locomotion_tables():
    counts = {
        name: dict(zip((row[0] for row in rows), rows, strict=True)) for name, rows in against_the_paper().items()
    }
    better, equal, worse = (sum(int(each["LGR_v(s)"][i]) for each in counts.values()) for i in (1, 2, 3))
    assert f"worse than the paper's in {worse} of the {better + equal + worse} rows that are judged" in README
    known, goals = (sum(int(each[m][1]) + int(each[m][2]) for each in counts.values()) for m in ("F", "LGR(z)"))
    assert f"F is better or equal in {known} of these rows, LGR(z) in {goals}." in README
    programs = [cell for each in TABLES.values() for name, cell in each["programs"].items() if is_of_the_paper(name)]
    at_length = [cell for cell in programs if round(cell["steps"], -5) >= 10**7]
    long, every = (sum(len(cell["settings"]) for cell in some) for some in (at_length, programs))
    assert f"{long} of {every} rows have 10M" in README


def against_the_paper():
    return {name: each["tables"]["Rows against the paper"]["rows"] for name, each in TABLES.items()}


def is_of_the_paper(name):
    """Not one of those that stand beside its tables."""
    return name not in {aside.name for aside in ASIDES}


def test_links_lead_to_files_of_the_repository():
    """Where it is browsed; `make docs` looks at those of the site."""
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
    links = [(page, link) for page in pages for link in re.findall(r"\]\(([^)#\s]+)(?:[# ][^)]*)?\)", page.read_text())]
    missing = [(page.name, link) for page, link in links if ":" not in link and not (page.parent / link).exists()]
    assert missing == []


def test_every_method_has_a_page_that_is_linked():
    index = (ROOT / "docs" / "methods" / "index.md").read_text()
    assert sorted(re.findall(r"\[`([\w-]+)`\]\(\1\.md\)", index)) == sorted(METHODS)
