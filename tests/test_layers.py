"""Imports point down: a module uses only modules of lower layers, or of its own package."""

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "vgcrl"

LAYERS = [
    {"types", "errors", "distributions", "networks", "optim", "devices", "files"},
    {"goals", "posteriors", "envs"},
    {"replay", "relabel", "agents"},
    {"learner", "rollout"},
    {"metrics", "methods", "checkpoint", "logs", "targets"},
    {"config"},
    {"program"},
    {"hosted"},
    {"training"},
    {"api", "evaluation", "experts", "figures", "filmstrip", "tables", "peers"},
    {"bench"},
    {"report"},
    {"experiments"},
    {"cli", "__init__"},
    {"__main__"},
]
DEPTH = {name: depth for depth, layer in enumerate(LAYERS) for name in layer}


def owner(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imported(path: Path) -> set[str]:
    """Modules of ours that a file imports, by their first name below the package."""
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
    me = owner(path)
    above = {name for name in imported(path) - {me} if DEPTH[name] >= DEPTH[me]}
    assert not above, f"{me} imports {above}, which is not below it"
