"""Files that are whole or not there, whoever else writes or reads them."""

import os
from pathlib import Path


def atomic_write(path: Path, content: bytes | str) -> None:
    data = content.encode() if isinstance(content, str) else content
    if path.exists() and not path.is_file():  # a device or a pipe is written to, never replaced
        path.write_bytes(data)
        return
    place = path.resolve()
    temporary = place.with_name(f".{place.name}.{os.getpid()}")
    try:
        temporary.write_bytes(data)
        temporary.replace(place)
    except OSError as error:
        error.filename = str(path)
        raise
    finally:
        temporary.unlink(missing_ok=True)
