"""The smallest configuration that exercises everything."""

import re

TINY = {
    "steps": 640,
    "envs": 4,
    "hidden": (16, 16),
    "batch": 16,
    "replay": 1000,
    "random_steps": 64,
    "evaluate_every": 160,
    "checkpoint_every": 160,
    "evaluate_episodes": 4,
    "seeds": 2,
}


def flags(**changes):
    """As command-line options."""
    options = {**TINY, **changes}
    text = {k: ",".join(map(str, v)) if isinstance(v, tuple) else str(v) for k, v in options.items()}
    return [x for k, v in text.items() for x in ("--" + k.replace("_", "-"), v)]


def copies(compiled, array):
    """How often a compiled program copies an array of this shape; it must have one."""
    shape = r"\w+" + re.escape(f"[{','.join(map(str, array.shape))}]")
    text = compiled.as_text()
    assert re.search(shape, text)
    return len(re.findall(rf"{shape}\S* copy\(", text))
