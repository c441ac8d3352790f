"""Files of programs at a URL that all nodes reach: pyarrow's file systems (file, s3, gs, hdfs), or any of fsspec's.

The same paths as in the local folder: `runs/NAME/` and `cells/NAME.*`. What is half written is never read: small
files appear by a rename, and a checkpoint counts when its checksum, which comes last, is there.
"""

import shutil
import uuid
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any


def open_url(url: str) -> tuple[Any, str]:
    """A file system, and the path of the URL in it."""
    from pyarrow import ArrowInvalid
    from pyarrow.fs import FileSystem, FSSpecHandler, PyFileSystem

    try:
        return FileSystem.from_uri(url)
    except ArrowInvalid:
        import fsspec

        system, path = fsspec.core.url_to_fs(url)
        return PyFileSystem(FSSpecHandler(system)), path


@contextmanager
def probe(url: str) -> Generator[str]:
    """A file that is there for a while: its path. Raises OSError, or what else the file system has to say."""
    system, base = open_url(url)
    path = f"{base}/.probe-{uuid.uuid4().hex}"
    system.create_dir(base, recursive=True)
    system.open_output_stream(path).close()
    try:
        yield path
    finally:
        system.delete_file(path)


def fault(url: str, left: str) -> str:
    """Why this node does not see the probe that another left, or cannot leave one; empty where it can."""
    try:
        open_url(url)[0].open_input_stream(left).close()
        with probe(url):
            return ""
    except Exception as error:  # each file system has its own
        return str(error).partition("\n")[0]


def remove(url: str) -> None:
    """A folder and all in it."""
    system, path = open_url(url)
    system.delete_dir(path)


def _order(path: str) -> tuple[bool, bool, bool, str]:
    """The log before the checkpoints it is about, a checksum after its file, and a cell, which says finished, last."""
    return path.startswith("cells/"), "/checkpoints/" in path, path.endswith("/sha256"), path


class Mirror:
    """Files of one program, in a local folder and at a URL."""

    def __init__(self, url: str, folder: Path, name: str):
        self._system, self._base = open_url(url)
        self._folder, self._name = folder, name
        self._same: dict[str, tuple[int, int]] = {}  # path -> size and time of the local file that is also remote

    def _local(self) -> list[str]:
        files = [*(self._folder / "runs" / self._name).rglob("*"), *(self._folder / "cells").glob(f"{self._name}.*")]
        paths = [file.relative_to(self._folder) for file in files if file.is_file()]
        whole = (path for path in paths if not any(part.startswith(".") for part in path.parts))
        return sorted((path.as_posix() for path in whole), key=_order)

    def _remote(self) -> list[str]:
        from pyarrow.fs import FileSelector, FileType

        places = [FileSelector(f"{self._base}/{part}", True, True) for part in (f"runs/{self._name}", "cells")]
        infos = [info for place in places for info in self._system.get_file_info(place) if info.type == FileType.File]
        paths = [info.path.removeprefix(f"{self._base}/") for info in infos]
        return [path for path in paths if path.startswith((f"runs/{self._name}/", f"cells/{self._name}."))]

    def _stamp(self, path: str) -> tuple[int, int]:
        stat = (self._folder / path).stat()
        return stat.st_size, stat.st_mtime_ns

    def pull(self, whole: bool = True) -> None:
        """What is at the URL, to here; unless whole, without checkpoints."""
        for path in self._remote():
            if path.endswith(".part") or ("/checkpoints/" in path and not whole):
                continue
            target = self._folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            with self._system.open_input_stream(f"{self._base}/{path}") as source, target.open("wb") as file:
                shutil.copyfileobj(source, file, 2**22)
            self._same[path] = self._stamp(path)

    def push(self) -> None:
        """What is new here, to the URL; and what is gone here goes there."""
        local = self._local()
        for path in local:
            with suppress(FileNotFoundError):  # an old checkpoint may go meanwhile
                stamp = self._stamp(path)
                if self._same.get(path) != stamp:
                    self._send(path)
                    self._same[path] = stamp
        for path in self._same.keys() - set(local):
            self._system.delete_file(f"{self._base}/{path}")
            del self._same[path]

    def _send(self, path: str) -> None:
        target = f"{self._base}/{path}"
        written = target if "/checkpoints/" in path else f"{target}.part"
        with (self._folder / path).open("rb") as source:
            self._system.create_dir(target.rpartition("/")[0], recursive=True)
            with self._system.open_output_stream(written) as file:
                shutil.copyfileobj(source, file, 2**22)
        if written != target:
            self._system.move(written, target)
