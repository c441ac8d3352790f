"""Signatures of the core say the shapes of arrays, and tests check them."""

import ast
from pathlib import Path

import jax.numpy as jnp
import pytest
from jaxtyping import TypeCheckError

from vgcrl.objective.networks import Linear, product

SOURCE = Path(__file__).parent.parent / "src" / "vgcrl"
CORE = [*sorted((SOURCE / "objective").rglob("*.py"))]
CORE += [SOURCE / "measure" / name for name in ("rollout.py", "metrics.py")]
CORE += [SOURCE / "training" / name for name in ("program.py", "evaluation.py", "replay.py")]
SHAPED = {"Bool", "Float", "Int", "Key", "Shaped", "UInt"}


@pytest.mark.parametrize("path", CORE, ids=lambda p: str(p.relative_to(SOURCE)))
def test_no_array_without_a_shape(path):
    """An argument, field or result that is an array, or is made of arrays, says more than that."""
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ClassDef):
            found += [x for x in node.body if isinstance(x, ast.AnnAssign) and has_bare_array(x.annotation)]
        if isinstance(node, ast.arg) and has_bare_array(node.annotation):
            found.append(node)
        if isinstance(node, ast.FunctionDef) and has_bare_array(node.returns):
            found.append(node)
    assert not [node.lineno for node in found]


def has_bare_array(annotation):
    """Whether `Array` occurs outside of a shape; functions are let be, whose shapes nothing checks."""
    if isinstance(annotation, ast.Subscript) and ast.unparse(annotation.value) in {"Callable", *SHAPED}:
        return False
    if isinstance(annotation, ast.Name):
        return annotation.id == "Array"
    return annotation is not None and any(has_bare_array(x) for x in ast.iter_child_nodes(annotation))


@pytest.mark.parametrize(
    ("annotation", "bare"),
    [
        ("Array", True),
        ("Array | None", True),
        ("dict[str, Array]", True),
        ("tuple[int, tuple[Array, int]]", True),
        ("Float[Array, '']", False),
        ("dict[str, Float[Array, '...']] | None", False),
        ("Callable[[Array], Array]", False),
    ],
)
def test_a_bare_array_is_found_wherever_it_is(annotation, bare):
    assert has_bare_array(ast.parse(annotation, mode="eval").body) == bare


def test_wrong_shapes_are_noticed():
    with pytest.raises(TypeCheckError):
        product(jnp.zeros((3, 2)), jnp.zeros(3))
    with pytest.raises(TypeCheckError):
        Linear(jnp.zeros(3), jnp.zeros(3))
