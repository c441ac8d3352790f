"""Add seeds that were measured later to the file of a program of `vgcrl reproduce discrete` or `continuous`.

    python tools/join_seeds.py results/continuous/cells/Ant-G5-gaussian.json MORE/continuous/cells/Ant-G5-gaussian.json

The first file is written anew, and the filmstrips beside it where another run is the best or the worst. Of curves the
steps stay that both have; seconds are added. The two must differ in nothing else but their seeds.
"""

import json
import shutil
import sys
from pathlib import Path
from typing import Any

from vgcrl.files import atomic_write

Cell = dict[str, Any]
OWN = (
    "config",
    "seeds",
    "runs",
    "wall_seconds",
    "minutes_per_row",
    "final",
    "curves",
    "strips",
    "remark",
    "measured_on",
)
STRIPS = {"best": min, "worst": max}  # by LGR_v


def joined(first: Cell, second: Cell) -> Cell:
    """Both, the seeds of `second` behind those of `first`."""
    a, b = map(compared, (first, second))
    differ = sorted(k for k in a.keys() | b.keys() if a.get(k) != b.get(k))
    if differ:
        raise SystemExit(f"they differ in {', '.join(differ)}")
    seeds = first["seeds"] + second["seeds"]
    if seeds != list(range(seeds[0], seeds[0] + len(seeds))):
        raise SystemExit(f"seeds {second['seeds']} do not follow {first['seeds']}")
    wall = first["wall_seconds"] + second["wall_seconds"]
    more = {
        "config": first["config"] | {"seeds": len(seeds)},
        "seeds": seeds,
        "runs": first["runs"] + second["runs"],
        "final": {k: side_by_side(v, second["final"][k]) for k, v in first["final"].items()},
        "curves": common(first["curves"], second["curves"]),
        "wall_seconds": round(wall, 1),
        "minutes_per_row": round(wall / 60 / len(first["settings"]), 2),
        "measured_on": "; ".join(dict.fromkeys((first["measured_on"], second["measured_on"]))),
    }
    remarks = [f"seeds {x['seeds'][0]} to {x['seeds'][-1]}: {x['remark']}" for x in (first, second) if "remark" in x]
    out = first | more | ({"remark": ". ".join(remarks)} if remarks else {})
    scores = {(i, j): x or 0.0 for i, row in enumerate(out["final"]["lgr_v"]) for j, x in enumerate(row)}
    out["strips"] = {name: list(STRIPS[name](scores, key=scores.__getitem__)) for name in first["strips"]}
    return out


def compared(cell: Cell) -> Cell:
    """Without what other seeds make different."""
    config = {f"config: {k}": v for k, v in cell["config"].items() if k not in ("seed", "seeds")}
    return {k: v for k, v in cell.items() if k not in OWN} | config


def common(a: Cell, b: Cell) -> Cell:
    """Curves of both at the steps that both have."""
    steps = [step for step in a["step"] if step in b["step"]]
    out: Cell = {"step": steps}
    for name in (name for name in a if name != "step"):
        out[name] = [side_by_side(a[name][a["step"].index(x)], b[name][b["step"].index(x)]) for x in steps]
    return out


def side_by_side(a: list[list[Any]], b: list[list[Any]]) -> list[list[Any]]:
    """The seeds of every setting."""
    return [x + y for x, y in zip(a, b, strict=True)]


def main(paths: list[Path]) -> None:
    first, second = (json.loads(path.read_text(encoding="utf-8")) for path in paths)
    out, count = joined(first, second), len(first["seeds"])
    for name, (_, seed) in out["strips"].items():
        if seed >= count:
            shutil.copyfile(*(path.with_suffix(f".{name}.png") for path in reversed(paths)))
    atomic_write(paths[0], json.dumps(out) + "\n")
    print(f"{paths[0]}: seeds {out['seeds'][0]} to {out['seeds'][-1]}")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main([Path(word) for word in sys.argv[1:]])
