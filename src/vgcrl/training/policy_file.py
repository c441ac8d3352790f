"""`policy.safetensors`: the parameters that acting and q need, saved at the last evaluation.

It is small, since it has no replay; with `config.json` it is all that is needed to use a policy elsewhere. Its header
has a checksum of the whole file.
"""

import hashlib
import re
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from safetensors.numpy import save as to_bytes

from vgcrl.errors import UsageError
from vgcrl.files import atomic_write, open_to_read
from vgcrl.training import state_file
from vgcrl.training.state_file import HEADER, Damaged

LAYOUT = 4  # increase when the meaning of its arrays, or of the header, changes
BLANK = b'"sha256":"' + 64 * b"0" + b'"'
DIGEST = re.compile(rb'"sha256":"([0-9a-f]{64})"')


class DamagedPolicy(UsageError):
    """Raised if a policy file is not as it was written."""


def _path(run: Path) -> Path:
    return run / "policy.safetensors"


def save(run: Path, step: int, state: Any, counters: dict[str, Any], *, config: str) -> None:
    """Write the policy file of a run; `config` is the text of config.json."""
    header = state_file.header_of(LAYOUT, step, counters, config) | {"sha256": 64 * "0"}
    data = to_bytes(state_file.to_arrays(state), header)
    digest = BLANK.replace(64 * b"0", hashlib.sha256(data).hexdigest().encode())
    atomic_write(_path(run), data.replace(BLANK, digest, 1))


def _check_digest(file: Path) -> None:
    """Raise Damaged unless the checksum is that of the file with zeros in place of the checksum."""
    with open_to_read(file) as opened:
        length = opened.read(8)
        size = int.from_bytes(length, "little")
        head = opened.read(min(size, HEADER))
        found = DIGEST.search(head)
        if found is None:
            raise Damaged(f"{file} has no checksum")
        digest = hashlib.sha256(length + DIGEST.sub(BLANK, head, count=1))
        while block := opened.read(2**20):
            digest.update(block)
    if digest.hexdigest().encode() != found[1]:
        raise Damaged(f"{file} does not match its checksum")


@contextmanager
def _soundly(file: Path) -> Generator[None]:
    try:
        with state_file.soundly(file):
            yield
    except Damaged as error:
        raise DamagedPolicy(f"damaged policy: {error}; valid: the file as it was written") from None


def read(run: Path, template: Any, config: str, warn: Callable[[str], None]) -> tuple[Any, dict[str, Any]]:
    """Returns what was saved, with the shapes of `template`, and the counters."""
    file = _path(run)
    with _soundly(file):
        state_file.check_size(file, state_file.size_of(template))
        _check_digest(file)
        arrays, counters, written = state_file.read_arrays(file, LAYOUT)
    state_file.check_config(file, written, config, warn)
    return state_file.from_arrays(file, arrays, template), counters


def exists(run: Path) -> bool:
    return _path(run).exists()


def step_of(run: Path) -> int:
    """Returns the environment steps after which the policy was saved, or 0 if there is none."""
    file = _path(run)
    if not file.exists():
        return 0
    with _soundly(file):
        open_to_read(file).close()
        counters, _ = state_file.read_header(file, LAYOUT)
        _check_digest(file)
        return counters["step"]
