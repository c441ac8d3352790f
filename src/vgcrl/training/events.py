"""Write TensorBoard event files without TensorBoard."""

import struct
import time
from pathlib import Path

from vgcrl.files import make_folder, naming


def _crc32c_table() -> list[int]:
    table = []
    for n in range(256):
        for _ in range(8):
            n = (n >> 1) ^ (0x82F63B78 if n & 1 else 0)
        table.append(n)
    return table


_TABLE = _crc32c_table()


def _masked_crc(data: bytes) -> bytes:
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _TABLE[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    crc ^= 0xFFFFFFFF
    return struct.pack("<I", (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF)


def _varint(n: int) -> bytes:
    out = b""
    while n > 127:
        out, n = out + bytes([n & 127 | 128]), n >> 7
    return out + bytes([n])


def _bytes_field(number: int, data: bytes) -> bytes:
    return bytes([number << 3 | 2]) + _varint(len(data)) + data


class Events:
    """A TensorBoard event file of scalars and films: length-delimited protocol buffers, each with its checksum."""

    def __init__(self, folder: Path):
        make_folder(folder)
        self._path = folder / f"events.out.tfevents.{time.time_ns()}.vgcrl"
        self._file = self._path.open("xb")
        self._write(_bytes_field(3, b"brain.Event:2"))

    def _write(self, payload: bytes) -> None:
        event = b"\x09" + struct.pack("<d", time.time()) + payload
        length = struct.pack("<Q", len(event))
        with naming(self._path):
            self._file.write(length + _masked_crc(length) + event + _masked_crc(event))
            self._file.flush()

    def begin(self, step: int) -> None:
        """Write that a session begins at `step`: TensorBoard drops what older files in the folder have from there on,
        which a run that went on from a checkpoint has lost."""
        self._write(b"\x10" + _varint(step) + _bytes_field(7, b"\x08\x01"))

    def scalars(self, step: int, values: dict[str, float]) -> None:
        """Write the numbers of a step, by name."""
        summary = b"".join(
            _bytes_field(1, _bytes_field(1, name.encode()) + b"\x15" + struct.pack("<f", value))
            for name, value in values.items()
        )
        self._write(b"\x10" + _varint(step) + _bytes_field(5, summary))

    def film(self, step: int, name: str, gif: bytes, size: tuple[int, int]) -> None:
        """Write an animated GIF among the images; `size` is (width, height) in pixels."""
        width, height = size
        image = b"\x08" + _varint(height) + b"\x10" + _varint(width) + b"\x18" + _varint(3) + _bytes_field(4, gif)
        value = _bytes_field(1, name.encode()) + _bytes_field(4, image)
        self._write(b"\x10" + _varint(step) + _bytes_field(5, _bytes_field(1, value)))

    def close(self) -> None:
        self._file.close()
