"""Where bodies went: cells covered by skills, and whether places asked for were reached. Numpy, on recorded paths."""

import numpy as np

CELL = 1.0  # m
RADIUS = 0.5  # m: a place counts as reached within it
PLACES = ("coverage", "success", "success_end", "time_near", "distance_left")


def coverage(path: np.ndarray) -> float:
    """Cells of 1 m (1 × 1 m) entered by any episode; `path` is (step, episode, place)."""
    cells = np.floor(path / CELL).reshape(-1, path.shape[-1])
    return float(len(np.unique(cells, axis=0)))


def arrivals(path: np.ndarray, targets: np.ndarray, radius: float = RADIUS) -> dict[str, float]:
    """Of one place asked for in each episode, (episode, place): the share of episodes that came within `radius` at
    any step, that ended there, the share of steps spent there, and the median distance left at the end."""
    distance = np.linalg.norm(path - targets[None], axis=-1)
    near = distance <= radius
    return {
        "success": float(near.any(axis=0).mean()),
        "success_end": float(near[-1].mean()),
        "time_near": float(near.mean()),
        "distance_left": float(np.median(distance[-1])),
    }
