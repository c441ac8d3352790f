"""Folders are floors: a file imports only from its own floor and from those below it."""

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "vgcrl"
FLOORS = ["version", "errors", "files", "objective", "envs", "measure", "training", "use", "show", "experiments"]
FLOORS += ["bench", "cli", "__init__", "__main__"]


def floor(path: Path) -> int:
    return FLOORS.index(path.relative_to(SOURCE).parts[0].removesuffix(".py"))


def imported(path: Path) -> set[str]:
    """Floors that a file imports from."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module == "vgcrl":
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("vgcrl."):
            names.add(node.module.split(".")[1])
        elif isinstance(node, ast.Import):
            names |= {alias.name.split(".")[1] for alias in node.names if alias.name.startswith("vgcrl.")}
    return names


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda p: str(p.relative_to(SOURCE)))
def test_imports_point_down(path):
    above = {name for name in imported(path) if FLOORS.index(name) > floor(path)}
    assert not above, f"{path.relative_to(SOURCE)} imports {above}, a floor above its own"
