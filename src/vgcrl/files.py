"""Files that are whole or not there, whoever else writes or reads them."""

import os
from pathlib import Path


def put(path: Path, content: bytes | str) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_bytes(content.encode() if isinstance(content, str) else content)
    temporary.replace(path)
