"""Where bodies went: cells covered by skills, and whether places asked for were reached. Numpy, on recorded paths."""

import numpy as np

CELL = 1.0  # m
RADII = {"": 0.5, "_1": 1.0, "_3": 3.0}  # m, within which a place counts as reached: JaxGCRL's, and two wider
ARRIVALS = tuple(name + suffix for suffix in RADII for name in ("success", "success_end", "time_near"))
PLACES = ("coverage", *ARRIVALS, "distance_left")


def coverage(path: np.ndarray) -> float:
    """Cells of 1 m (1 × 1 m) entered by any episode; `path` is (step, episode, place)."""
    cells = np.floor(path / CELL).reshape(-1, path.shape[-1])
    return float(len(np.unique(cells, axis=0)))


def arrivals(path: np.ndarray, targets: np.ndarray) -> dict[str, float]:
    """Of one place asked for in each episode, (episode, place): the share of episodes that came within a radius at any
    step, that ended there, and the share of steps spent there, for each of RADII; the median distance left."""
    distance = np.linalg.norm(path - targets[None], axis=-1)
    out = {}
    for suffix, radius in RADII.items():
        near = distance <= radius
        out["success" + suffix] = float(near.any(axis=0).mean())
        out["success_end" + suffix] = float(near[-1].mean())
        out["time_near" + suffix] = float(near.mean())
    return out | {"distance_left": float(np.median(distance[-1]))}
