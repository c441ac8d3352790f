"""Ants from above, docs/images/ant-paths.png: skills of `ant-metra`, and `ant-place` sent to places 10 m away.

python tools/draw_paths.py [--out FILE]

Both policies come with the package; `ant-place` acts with the noise that it was trained with, as it is meant to.
"""

import argparse
from pathlib import Path

import jax.numpy as jnp
import numpy as np
from go_there import walk
from matplotlib.figure import Figure

from vgcrl.measure import places
from vgcrl.show.acting import around
from vgcrl.show.figures import palette
from vgcrl.training import trainer
from vgcrl.training.program import policy
from vgcrl.use.policies import folder_of

SKILLS, SKILL_STEPS = 48, 200
TARGETS, AWAY, TARGET_STEPS, NEAR = 16, 10.0, 400, 0.5


def paths(name: str, goals: np.ndarray, noise: float, steps: int) -> np.ndarray:
    """(step, goal, place), from the start on."""
    program, runs, _ = trainer.restore(folder_of(name), print)
    return walk(program, policy(program.config, runs), jnp.asarray(goals), noise, steps)[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("docs/images/ant-paths.png"))
    out = parser.parse_args().out
    figure = Figure(figsize=(9.6, 4.8), layout="constrained")
    left, right = figure.subplots(1, 2)
    skills = paths("ant-metra", around(SKILLS), 0.0, SKILL_STEPS)
    for i, colour in enumerate(palette(SKILLS)):
        left.plot(*skills[:, i].T, color=colour, linewidth=1.2)
    targets = AWAY * around(TARGETS)
    found = paths("ant-place", targets, 1.0, TARGET_STEPS)
    for i, colour in enumerate(palette(TARGETS)):
        right.plot(*found[:, i].T, color=colour, linewidth=1.2)
        right.plot(*targets[i], "x", color=colour, markersize=7)
        right.plot(*found[-1, i], "o", color=colour, markersize=5, markeredgecolor="black")
    reached = places.arrivals(found, targets)
    shown = f"{reached['success_end'] * TARGETS:.0f} of {TARGETS} end within {NEAR} m"
    for axis, title in ((left, f"METRA: {SKILLS} skills, 10 s each"), (right, f"gcrl, places 10 m away: {shown}")):
        axis.set_title(title, fontsize=10)
        axis.set(aspect="equal", xlabel="x, m", ylabel="y, m")
        axis.grid(alpha=0.3)
    figure.savefig(out, dpi=100)
    print(out, {name: round(x, 3) for name, x in reached.items()})


if __name__ == "__main__":
    main()
