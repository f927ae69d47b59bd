"""Builds an ISO 9660 image with Joliet names from a folder of a few files: a read-only disk for guests.

Layout in sectors of 2048 bytes: 16 empty ones, the three volume descriptors, a path table of each byte order for the
plain and the Joliet tree, the root folder of each tree, then the files.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from struct import pack

SECTOR = 2048
_PLAIN_TABLES, _JOLIET_TABLES = (19, 20), (21, 22)
_PLAIN_ROOT, _JOLIET_ROOT, _FILES = 23, 24, 25
_JOLIET_ESCAPE = b"%/E"
"""UCS-2, level 3."""


def iso_image(label: str, files: Mapping[str, bytes]) -> bytes:
    """Raises ValueError if the names do not fit into one sector, which holds about twenty."""
    placed, at = [], _FILES
    for name in sorted(files):
        placed.append((name, at, len(files[name])))
        at += -(-len(files[name]) // SECTOR)
    plain = _folder(_PLAIN_ROOT, [(_plain(number), where, size) for number, (_, where, size) in enumerate(placed)])
    joliet = _folder(_JOLIET_ROOT, [(name.encode("utf-16-be"), where, size) for name, where, size in placed])
    parts = [
        bytes(16 * SECTOR),
        _descriptor(1, label.upper().encode().ljust(32), b"", at, _PLAIN_TABLES, _PLAIN_ROOT),
        _descriptor(2, label.ljust(16).encode("utf-16-be"), _JOLIET_ESCAPE, at, _JOLIET_TABLES, _JOLIET_ROOT),
        _padded(b"\xffCD001\x01"),
        *(_table(root, order) for root in (_PLAIN_ROOT, _JOLIET_ROOT) for order in ("<", ">")),
        plain,
        joliet,
        *(_padded(files[name]) for name, _, _ in placed),
    ]
    return b"".join(parts)


def _plain(number: int) -> bytes:
    """The names of the plain tree do not matter: all guests read the Joliet tree."""
    return b"FILE%d.;1" % number


def _both(number: int, code: str) -> bytes:
    return pack("<" + code, number) + pack(">" + code, number)


def _padded(data: bytes) -> bytes:
    return data.ljust(-(-len(data) // SECTOR) * SECTOR, b"\0")


def _record(name: bytes, at: int, size: int, folder: bool = False) -> bytes:
    rest = bytes(7) + bytes([2 if folder else 0, 0, 0]) + _both(1, "H") + bytes([len(name)]) + name
    body = b"\0" + _both(at, "I") + _both(size, "I") + rest
    body += b"\0" * (1 - len(body) % 2)
    return bytes([len(body) + 1]) + body


def _folder(at: int, entries: list[tuple[bytes, int, int]]) -> bytes:
    itself, above = _record(b"\0", at, SECTOR, True), _record(b"\1", at, SECTOR, True)
    data = itself + above + b"".join(_record(*entry) for entry in sorted(entries))
    if len(data) > SECTOR:
        raise ValueError("too many files for one folder")
    return _padded(data)


def _table(root: int, order: str) -> bytes:
    return _padded(bytes([1, 0]) + pack(order + "IH", root, 1) + b"\0\0")


def _descriptor(kind: int, label: bytes, escape: bytes, sectors: int, tables: tuple[int, int], root: int) -> bytes:
    joliet = kind == 2
    blank = b"\0 " if joliet else b" "
    stamp = datetime.now(UTC).strftime("%Y%m%d%H%M%S00").encode() + b"\0"
    never = b"0" * 16 + b"\0"
    texts = [(blank * size)[:size] for size in (128, 128, 128, 128, 37, 37, 37)]
    return _padded(
        bytes([kind]) + b"CD001\x01\0" + (blank * 32)[:32] + label + bytes(8) + _both(sectors, "I")
        + escape.ljust(32, b"\0") + _both(1, "H") + _both(1, "H") + _both(SECTOR, "H") + _both(10, "I")
        + pack("<II", tables[0], 0) + pack(">II", tables[1], 0) + _record(b"\0", root, SECTOR, True)
        + b"".join(texts) + stamp + stamp + never + never + b"\x01\0"
    )  # fmt: skip
