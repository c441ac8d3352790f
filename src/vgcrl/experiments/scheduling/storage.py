"""Files of programs at a URL that all nodes reach, through fsspec: file, s3, gs and all others that it knows.

Paths are those in the local folder: `runs/NAME/` and `cells/NAME.*`. What is half written is never read: small
files appear by a rename, and a checkpoint counts when its checksum, which comes last, is there.
"""

import uuid
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any


def open_url(url: str) -> tuple[Any, str]:
    """Returns a file system and the path of the URL in it; pyarrow's where fsspec has no package for it, as for s3."""
    import fsspec
    from fsspec.implementations.arrow import ArrowFSWrapper

    try:
        return fsspec.core.url_to_fs(url)
    except ImportError:
        from pyarrow.fs import FileSystem

        system, path = FileSystem.from_uri(url)
        return ArrowFSWrapper(system), path


@contextmanager
def probe(url: str) -> Generator[str]:
    """Keeps an empty file at the URL for a while and yields its path; raises OSError or the file system's own error."""
    system, base = open_url(url)
    path = f"{base}/.probe-{uuid.uuid4().hex}"
    system.makedirs(base, exist_ok=True)
    system.pipe_file(path, b"")
    try:
        yield path
    finally:
        system.rm_file(path)


def fault(url: str, left: str) -> str:
    """Returns why this node does not see the probe at `left`, or cannot leave one of its own; empty where it can."""
    try:
        open_url(url)[0].cat_file(left)
        with probe(url):
            return ""
    except Exception as error:  # each file system has its own
        return f"{type(error).__name__}: {error}".partition("\n")[0]


def _order(path: str) -> tuple[bool, bool, bool, str]:
    """Returns the key by which files are sent in order: logs, checkpoints each before its checksum, and last a cell.

    A log comes before the checkpoints that it is about; a cell says that the program is finished.
    """
    return path.startswith("cells/"), "/checkpoints/" in path, path.endswith("/sha256"), path


class Mirror:
    """Copies the files of one program between a local folder and a URL."""

    def __init__(self, url: str, folder: Path, name: str):
        self._system, self._base = open_url(url)
        self._folder, self._name = folder, name
        self._same: dict[str, tuple[int, int]] = {}  # path -> size and time of the local file that is also remote

    def _files(self, system: Any, base: str) -> list[str]:
        """Returns the paths of the program's files in the order of `_order`, without hidden and half-written ones."""
        system.invalidate_cache()
        files = [file for part in (f"runs/{self._name}", "cells") for file in system.find(f"{base}/{part}")]
        paths = [file.removeprefix(f"{base}/") for file in files if "/." not in file.removeprefix(base)]
        mine = (f"runs/{self._name}/", f"cells/{self._name}.")
        return sorted((path for path in paths if path.startswith(mine) and not path.endswith(".part")), key=_order)

    def _stamp(self, path: str) -> tuple[int, int]:
        stat = (self._folder / path).stat()
        return stat.st_size, stat.st_mtime_ns

    def pull(self, whole: bool = True) -> None:
        """Copies what is at the URL to the local folder; without checkpoints unless `whole`."""
        for path in self._files(self._system, self._base):
            if whole or "/checkpoints/" not in path:
                (self._folder / path).parent.mkdir(parents=True, exist_ok=True)
                self._system.get_file(f"{self._base}/{path}", str(self._folder / path))
                self._same[path] = self._stamp(path)

    def push(self) -> None:
        """Copies what is new in the local folder to the URL, and deletes there what was deleted here."""
        local = self._files(*open_url(str(self._folder)))
        for path in local:
            with suppress(FileNotFoundError):  # an old checkpoint may be deleted meanwhile
                stamp = self._stamp(path)
                if self._same.get(path) != stamp:
                    self._send(path)
                    self._same[path] = stamp
        for path in self._same.keys() - set(local):
            self._system.rm_file(f"{self._base}/{path}")
            del self._same[path]

    def _send(self, path: str) -> None:
        target = f"{self._base}/{path}"
        written = target if "/checkpoints/" in path else f"{target}.part"
        self._system.makedirs(target.rpartition("/")[0], exist_ok=True)
        self._system.put_file(str(self._folder / path), written)
        if written != target:
            self._system.mv(written, target)
