"""Text files are UTF-8 whatever the locale says."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "vgcrl"
TEXT = {"read_text": 0, "write_text": 1}  # methods of Path, and where their encoding is among the arguments
NOT_FILES = ("os.open", "Image.open", "webbrowser.open")


def without_encoding(code):
    """Lines of calls that open a text file, or the pipes of a process as text, in the encoding of the locale."""
    calls = (node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Call))
    return [call.lineno for call in calls if needs_encoding(call) and "encoding" not in given(call)]


def given(call):
    return {keyword.arg: keyword.value for keyword in call.keywords}


def needs_encoding(call):
    name = ast.unparse(call.func)
    last = name.rpartition(".")[2]
    if last in TEXT:
        return len(call.args) <= TEXT[last]
    if last in ("open", "fdopen") and name not in NOT_FILES:
        mode = ast.unparse(given(call).get("mode", ast.Constant("r")))
        modes = [mode, *map(ast.unparse, call.args[:2])]
        return not any(text.startswith(("'rb", "'wb", "'ab", "'xb")) for text in modes)
    return "text" in given(call) and name.startswith("subprocess.")


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("p.read_text()", True),
        ("p.read_text(encoding='utf-8')", False),
        ("p.read_text('utf-8-sig')", False),
        ("p.write_text(x)", True),
        ("p.open()", True),
        ("p.open('xb')", False),
        ("open(p, 'w')", True),
        ("os.open(p, 0)", False),
        ("subprocess.run(x, text=True)", True),
    ],
)
def test_calls_that_ask_the_locale_are_found(code, found):
    assert bool(without_encoding(code)) == found


def test_no_text_in_the_encoding_of_the_locale():
    lines = {path: without_encoding(path.read_text(encoding="utf-8")) for path in SOURCE.rglob("*.py")}
    assert lines
    assert not {path: found for path, found in lines.items() if found}


def test_a_page_is_made_in_a_locale_without_greek_letters(trained, tmp_path):
    page = tmp_path / "page.html"
    command = [sys.executable, "-m", "vgcrl", "explore", trained, "--out", page]
    locale = {"PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "LC_ALL": "C"}
    subprocess.run(command, env=os.environ | locale, capture_output=True, check=True)
    assert not page.read_text(encoding="utf-8").isascii()
