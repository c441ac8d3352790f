"""Shows a run, or a policy that comes with the package: as an interactive page, or as a film."""

import sys
import webbrowser
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from vgcrl.envs import modules
from vgcrl.errors import UsageError, need_report
from vgcrl.files import as_path, check_page
from vgcrl.show.explorer import explore as write_page
from vgcrl.use.policies import card, folder_of, is_shipped, meant_with_noise, metrics_of


def _say(text: str) -> None:
    print(text, file=sys.stderr)


def _noise(folder: Path, asked: bool | None) -> bool:
    """Returns whether to act with noise: as asked, else as the policy is meant to; says so where that is with noise."""
    if asked not in (None, True, False):
        raise UsageError(f"noise is {asked!r}; valid: True, False or None")
    if asked is None and meant_with_noise(folder):
        _say(f"{folder.name} acts with the noise of its training, as it is meant to; --noise no shows it without")
    return meant_with_noise(folder) if asked is None else asked


def explore(
    run: str | Path,
    *,
    out: str | Path | None = None,
    goals: Sequence[Any] | None = None,
    open: bool = False,
    noise: bool | None = None,
) -> Path:
    """Writes one HTML file in which to choose a goal and watch; returns its path. It needs no server and no network.

    Args:
        run: a run folder, or the name of a policy that comes with the package.
        out: path of the file; by default `explore.html` in the run folder, or POLICY.html.
        goals: for Gymnasium environments, whose page plays recorded episodes back: the goals of these episodes; by
            default some that differ.
        open: show the page in the browser.
        noise: whether the policy acts with the noise of training when the page opens; by default as it is meant to.

    Examples:
        >>> vgcrl.explore("runs/diayn-pointmass", open=True)
    """
    modules.import_plugins()
    folder, path, facts = folder_of(run), None if out is None else as_path("out", out), {}
    if path is not None:
        check_page(path)
    if is_shipped(folder):
        told = card(folder.name)
        facts = {"name": folder.name, "about": told["about"], "command": told["command"], "measured": metrics_of(told)}
        path = path or Path(f"{folder.name}.html")
    page = write_page(folder, path, _say, _noise(folder, noise), goals, out is not None, **facts)
    if open and not webbrowser.open(page.absolute().as_uri()):
        _say("no browser was found here: open the page in one")
    return page


def film(
    run: str | Path,
    *,
    out: str | Path | None = None,
    goals: Sequence[Any] | None = None,
    seconds: float = 8.0,
    seed: int | None = None,
    setting: int | None = None,
    tour: bool = False,
    together: bool = False,
    noise: bool | None = None,
    tensorboard: bool = False,
) -> Path:
    """Writes a film of goals side by side, a .gif, .mp4 or .png, and returns its path.

    Args:
        run: a run folder, or the name of a policy that comes with the package.
        out: path of the file; by default `film.gif` in the run folder, or POLICY.gif.
        goals: goals to pursue, z; by default some that differ.
        seconds: length in simulated time.
        seed: the seed whose policy acts; by default the first.
        setting: which of several settings that were trained together, counted from 0; by default the first.
        tour: one robot pursues the goals one after the other.
        together: all robots are in one scene, each with its trail.
        noise: whether the policy acts with the noise of training; by default as it is meant to.
        tensorboard: also add the .gif to the images of the run's events.

    Examples:
        >>> vgcrl.film("ant-place", goals=[(4, 0), (0, 4)])
    """
    need_report("film")
    from vgcrl.show import film as films

    modules.import_plugins()
    folder = folder_of(run)
    usual = Path(f"{folder.name}.gif") if is_shipped(folder) else folder / "film.gif"
    path = usual if out is None else as_path("out", out)
    if tensorboard and (is_shipped(folder) or path.suffix != ".gif"):
        raise UsageError("--tensorboard takes a .gif of a run folder; valid: without it, or --out with .gif")
    ask = films.Request(goals, seconds, seed, setting, tour, together, noise=_noise(folder, noise))
    films.film(folder, path, ask, _say, follow=out is not None)
    if tensorboard:
        films.to_tensorboard(folder, path)
    return path
