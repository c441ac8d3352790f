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


def lines_with_links():
    """Rows and paragraphs of the README with the files of results they link to."""
    for line in re.split(r"\n(?=\||\n)", README):
        yield line, re.findall(r"\[([^]]+)\]\((results/[\w/.-]+)\)", line)


def test_intervals_are_in_the_report_that_stands_beside_them():
    found = 0
    for line, links in lines_with_links():
        intervals = re.findall(r"\d+\.\d+ ± \d+\.\d+", line)
        reports = "".join((ROOT / path / "README.md").read_text() for _, path in links if (ROOT / path).is_dir())
        assert [x for x in intervals if x not in reports] == [], line
        found += len(intervals)
    assert found >= 3


def measured(record):
    """What the README quotes of a file: speeds, shares of places reached, or square metres covered."""
    if "training" in record:
        return [row["env_steps_per_second"] for row in record["training"]]
    if "arrivals" in record:
        return [each["success"] for runs in record["arrivals"].values() for each in runs]
    if "examined" in record:
        return [each["coverage"] for each in record["examined"]["seeds"]]
    return [each["success"] for each in record["evaluations"][-1]["seeds"]]


def test_numbers_that_link_to_a_file_are_what_was_measured():
    found = 0
    for text, path in (link for _, links in lines_with_links() for link in links if link[1].endswith(".json")):
        if re.fullmatch(r"[\d .]+((to|and)[\d .]+)?", text):
            known = measured(json.loads((ROOT / path).read_text()))
            for each in (x.replace(" ", "") for x in re.split("to|and", text)):
                digits = len(each.partition(".")[2])
                assert float(each) in [float(f"{x + 1e-9:.{digits}f}") for x in known], (each, path)
                found += 1
    assert found >= 15


def test_what_is_said_of_the_locomotion_tables():
    words = " ".join(README.split())
    counts = {
        name: dict(zip((row[0] for row in rows), rows, strict=True)) for name, rows in against_the_paper().items()
    }
    for metric in ("F", "LGR(z)", "LGR_v"):
        better, equal, worse, unjudged, _ = (sum(int(each[metric][i]) for each in counts.values()) for i in range(1, 6))
        assert f"\n| {metric} | {better} | {equal} | {worse} | {unjudged} |\n" in README
    worse = [(row, name) for row in rows_beside_the_paper() for name in ("F", "LGR(z)") if "▼" in row[name]]
    told = []
    for metric in ("F", "LGR(z)"):
        robots = [row["robot"] for row, name in worse if name == metric]
        told.append(f"{robots.count('Humanoid')} of {len(robots)} rows worse in {metric}")
    assert f"{told[0]} and {told[1]} are Humanoid's" in words
    programs = [cell for each in TABLES.values() for name, cell in each["programs"].items() if is_of_the_paper(name)]
    at_length = [cell for cell in programs if round(cell["steps"], -5) >= 10**7]
    long, every = (sum(len(cell["settings"]) for cell in some) for some in (at_length, programs))
    assert f"{long} of {every} rows have the paper's 10M steps" in words


def rows_beside_the_paper():
    tables = [each for record in TABLES.values() for each in record["tables"].items() if " beside the paper" in each[0]]
    for title, table in tables:
        for row in table["rows"]:
            yield dict(zip(table["columns"], row, strict=True)) | {"robot": title.split()[0]}


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


def test_every_method_is_in_the_table_of_the_index_with_a_link_to_its_page():
    index = (ROOT / "docs" / "methods" / "index.md").read_text()
    for name, method in METHODS.items():
        cells = (method.space, method.prior, method.q, method.learned, method.technique)
        line = " | ".join([f"[`{name}`]({name}.md)", *(cell.replace("|", "\\|") for cell in cells)])
        assert f"\n| {line} |\n" in index
    assert sorted(re.findall(r"\[`([\w-]+)`\]\(\1\.md\)", index)) == sorted(METHODS)
