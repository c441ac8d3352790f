"""Files that are whole or not there, and nowhere else than they seem: nothing is written through a link."""

import os
import stat
from collections.abc import Generator
from contextlib import contextmanager, suppress
from io import BufferedReader, BufferedWriter
from pathlib import Path
from typing import Any

from vgcrl.errors import UsageError

SMALL = 2**26  # bytes, at most, of a file that is read as a whole


@contextmanager
def naming(path: Path) -> Generator[None]:
    """An error of the system says which file it is about, also where that was open already."""
    try:
        yield
    except OSError as error:
        error.filename = str(path)
        raise


def atomic_write(path: Path, content: bytes | str, *, follow: bool = False) -> None:
    """Replace a file in one step; `follow` where the user named the path, which may be a link or a device, or in a
    folder that is not there yet."""
    data = content.encode(errors="backslashreplace") if isinstance(content, str) else content  # names may be any bytes
    if follow and path.exists() and not path.is_file():  # a device or a pipe is written to, never replaced
        with naming(path):
            path.write_bytes(data)
        return
    place = path.resolve() if follow else path
    _check_plain(place)
    temporary = place.with_name(f".{place.name}.{os.getpid()}")
    try:
        with naming(path):
            if follow:
                place.parent.mkdir(parents=True, exist_ok=True)
            temporary.unlink(missing_ok=True)
            with temporary.open("xb") as file:
                file.write(data)
            temporary.replace(place)
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def as_path(what: str, given: Any) -> Path:
    """What a user gave as `what`; in Python that may be anything."""
    if not isinstance(given, (str, os.PathLike)) or not os.fsdecode(given) or "\0" in os.fsdecode(given):
        raise UsageError(f"{what} {given!r:.60} is not valid; valid: a path, as text or pathlib.Path")
    return Path(os.fsdecode(given))


def folder_name(method: str, env: str) -> str:
    """Without what names of environments have and those of folders had better not."""
    return f"{method}-{env}".replace("/", "_").replace(":", "_")


def check_page(out: Path) -> None:
    """That a page may be written where the user says: never over a file of another kind; a device will do."""
    if out.suffix not in (".html", ".htm") and (out.is_file() or out.is_dir() or not out.exists()):
        raise UsageError(f"--out {out} does not end in .html; valid: a name that does")


def leftover_of(path: Path) -> str | None:
    """The name of the file that `atomic_write` was writing when a kill left this one behind."""
    start, _, process = path.name.rpartition(".")
    return start[1:] if start.startswith(".") and process.isdecimal() and path.is_file() else None


def _check_plain(path: Path) -> None:
    """That a path is free, or a plain file of that name and no link."""
    with suppress(FileNotFoundError, NotADirectoryError):
        mode = path.lstat().st_mode
        if stat.S_ISLNK(mode):
            raise UsageError(f"{path} is a link, which nothing is written through; valid: a plain file, or none")
        if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):  # of a folder the system itself says so
            raise UsageError(f"{path} is no plain file; valid: a plain file, or none")


def make_folder(path: Path) -> None:
    """A folder that is there afterwards, and no link to one elsewhere."""
    if path.is_symlink():
        raise UsageError(f"{path} is a link, which nothing is written through; valid: a folder, or none")
    path.mkdir(exist_ok=True)


def open_to_write(path: Path, *, append: bool) -> BufferedWriter:
    """An existing plain file with one name, or a new one; never truncated."""
    _check_plain(path)
    flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | (os.O_APPEND if append else 0)
    file = os.fdopen(os.open(path, flags, 0o666), "ab" if append else "wb")
    if os.fstat(file.fileno()).st_nlink > 1:
        file.close()
        raise UsageError(f"{path} has another name (a hard link), where it would be changed too; valid: a copy of it")
    return file


def open_to_read(path: Path) -> BufferedReader:
    """A plain file; opening a pipe or a device might wait for ever."""
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    if stat.S_ISREG(os.fstat(handle).st_mode):
        return os.fdopen(handle, "rb")
    os.close(handle)
    raise UsageError(f"{path} is no plain file; valid: a plain file")


def read_small(path: Path, most: int = SMALL) -> bytes:
    """A whole plain file, refused where it is larger than any that was written."""
    with open_to_read(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size > most:
            raise UsageError(f"{path} has {size:,} bytes; valid: a file as it was written, at most {most:,}")
        return file.read()
