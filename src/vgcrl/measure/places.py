"""Metrics of recorded paths, in NumPy: how many cells skills cover, and whether target places are reached."""

import numpy as np

CELL = 1.0  # m
RADII = {"": 0.5, "_1": 1.0, "_3": 3.0}  # m; within it a place counts as reached: JaxGCRL's radius, and two wider
ARRIVALS = tuple(name + suffix for suffix in RADII for name in ("success", "success_end", "time_near"))
PLACES = ("coverage", *ARRIVALS, "distance_left")


def coverage(path: np.ndarray) -> float:
    """Returns the number of cells of 1 m (1 × 1 m) that any episode entered; `path` is (step, episode, place)."""
    cells = np.floor(path / CELL).reshape(-1, path.shape[-1])
    return float(len(np.unique(cells, axis=0)))


def arrivals(path: np.ndarray, targets: np.ndarray) -> dict[str, float]:
    """Returns how well episodes, each with one target place, reached it.

    `path` is (step, episode, place), `targets` (episode, place). For each of RADII: the share of episodes that came
    within the radius at any step (success) or were within it at the last step (success_end), and the share of steps
    within it (time_near). `distance_left` is the median final distance, in m.
    """
    distance = np.linalg.norm(path - targets[None], axis=-1)
    out = {}
    for suffix, radius in RADII.items():
        near = distance <= radius
        out["success" + suffix] = float(near.any(axis=0).mean())
        out["success_end" + suffix] = float(near[-1].mean())
        out["time_near" + suffix] = float(near.mean())
    return out | {"distance_left": float(np.median(distance[-1]))}
