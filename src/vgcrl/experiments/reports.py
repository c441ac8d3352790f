"""Reports of runs and of experiments, from Python and from the command line."""

from pathlib import Path

from vgcrl.errors import UsageError, need_report
from vgcrl.files import as_path, check_page


def report(*folders: str | Path, out: str | Path | None = None) -> Path:
    """Writes one self-contained HTML file about run folders or results of experiments, and returns its path.

    Several runs are compared first: what they reached, whether they differ, and their learning curves.

    Args:
        folders: run folders, or folders of results.
        out: path of the file; by default `report.html` in the first folder.

    Examples:
        >>> vgcrl.report("runs/diayn-pointmass", "runs/gcrl-pointmass", out="both.html")
    """
    need_report("report")
    if not folders:
        raise UsageError("report has no folder to tell of; valid: one or more run folders, or results of experiments")
    from vgcrl.experiments.result_page import read_page
    from vgcrl.show.compared import read_run
    from vgcrl.show.report import comparison_page, run_page, write

    paths = [as_path("folder", folder) for folder in folders]
    where = paths[0] / "report.html" if out is None else as_path("out", out)
    if out is not None:
        check_page(where)
    results = {path for path in paths if (path / "result.json").exists()}
    runs = {path: read_run(path) for path in paths if path not in results}
    pages = [comparison_page(list(runs.values()))] if len(runs) > 1 else []
    pages += [read_page(path) if path in results else run_page(runs[path], where.parent) for path in paths]
    return write(pages, where, follow=out is not None)
