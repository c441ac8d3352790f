"""What to install is told as it works for how the package was installed."""

import json
from importlib import metadata
from types import SimpleNamespace

import pytest

from vgcrl.errors import install

ORIGINS = {
    "an index": (None, "pip install 'vgcrl[ray]'"),
    "a folder": ({"url": "file:///a%20b/vgcrl", "dir_info": {}}, "pip install '/a b/vgcrl[ray]'"),
    "a folder, editable": ({"url": "file:///x", "dir_info": {"editable": True}}, "pip install -e '/x[ray]'"),
    "a wheel": ({"url": "file:///x/vgcrl.whl", "archive_info": {}}, "pip install '/x/vgcrl.whl[ray]'"),
    "git": (
        {"url": "https://example.org/vgcrl.git", "vcs_info": {"vcs": "git", "commit_id": "0"}},
        "pip install 'vgcrl[ray] @ git+https://example.org/vgcrl.git'",
    ),
    "an address": ({"url": "https://example.org/v.whl"}, "pip install 'vgcrl[ray] @ https://example.org/v.whl'"),
}


@pytest.mark.parametrize("case", ORIGINS)
def test_an_extra_is_installed_from_where_the_package_was(case, monkeypatch):
    origin, command = ORIGINS[case]
    text = None if origin is None else json.dumps(origin)
    monkeypatch.setattr(metadata, "distribution", lambda name: SimpleNamespace(read_text=lambda file: text))
    assert install("ray") == command


def test_a_package_that_is_not_installed(monkeypatch):
    def absent(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "distribution", absent)
    assert install("ray") == "pip install 'vgcrl[ray]'"
