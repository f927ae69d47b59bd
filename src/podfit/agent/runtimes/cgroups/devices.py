"""Restricts the devices that a container may open to harmless ones, as container engines do. Creating device files is
allowed (CAP_MKNOD is a default capability), opening them is not.

cgroup v1 has a controller for it, v2 a BPF program at the group.
"""

from __future__ import annotations

import ctypes
import os
import struct

ALLOWED = (
    (1, 3),  # null
    (1, 5),  # zero
    (1, 7),  # full
    (1, 8),  # random
    (1, 9),  # urandom
    (5, 0),  # tty
    (5, 2),  # ptmx
    (136, None),  # pts
)
"""Character devices by major and minor number; None: all minor numbers."""

RULES_V1 = ("c *:* m", "b *:* m", *(f"c {major}:{'*' if minor is None else minor} rwm" for major, minor in ALLOWED))

_SYS_BPF = {"x86_64": 321, "aarch64": 280}
_PROG_LOAD, _PROG_ATTACH = 5, 8
_CGROUP_DEVICE_PROGRAM, _CGROUP_DEVICE_ATTACH = 15, 6
_MKNOD, _CHARACTER = 1, 2
# Opcodes, linux/bpf.h.
_LOAD_WORD, _AND, _RSH, _MOVE, _MOVE_REGISTER = 0x61, 0x57, 0x77, 0xB7, 0xBF
_JUMP_EQUAL, _JUMP_NOT_EQUAL, _EXIT = 0x15, 0x55, 0x95


def _instruction(opcode: int, target: int = 0, source: int = 0, offset: int = 0, value: int = 0) -> bytes:
    return struct.pack("<BBhi", opcode, target | source << 4, offset, value)


def program() -> bytes:
    """A program that returns 1 if an access is allowed. The context is bpf_cgroup_dev_ctx: access << 16 | type, major,
    minor."""
    allow = _instruction(_MOVE, 0, value=1) + _instruction(_EXIT)
    text = b"".join(
        (
            _instruction(_LOAD_WORD, 2, 1, 0),
            _instruction(_MOVE_REGISTER, 3, 2),
            _instruction(_AND, 3, value=0xFFFF),
            _instruction(_RSH, 2, value=16),
            _instruction(_LOAD_WORD, 4, 1, 4),
            _instruction(_LOAD_WORD, 5, 1, 8),
            _instruction(_JUMP_NOT_EQUAL, 2, offset=2, value=_MKNOD),
            allow,
        )
    )
    for major, minor in ALLOWED:
        text += _instruction(_JUMP_NOT_EQUAL, 3, offset=3 if minor is None else 4, value=_CHARACTER)
        text += _instruction(_JUMP_NOT_EQUAL, 4, offset=2 if minor is None else 3, value=major)
        if minor is not None:
            text += _instruction(_JUMP_NOT_EQUAL, 5, offset=2, value=minor)
        text += allow
    return text + _instruction(_MOVE, 0, value=0) + _instruction(_EXIT)


def confine_v2(folder: str) -> None:
    """Raises OSError if the kernel does not support these programs, or this process may not load them."""
    text = program()
    code, licence = ctypes.create_string_buffer(text, len(text)), ctypes.create_string_buffer(b"Apache-2.0")
    attributes = struct.pack(
        "IIQQIIQII",
        _CGROUP_DEVICE_PROGRAM,
        len(text) // 8,
        ctypes.addressof(code),
        ctypes.addressof(licence),
        0,
        0,
        0,
        0,
        0,
    )
    loaded = _bpf(_PROG_LOAD, attributes)
    try:
        group = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            _bpf(_PROG_ATTACH, struct.pack("IIII", group, loaded, _CGROUP_DEVICE_ATTACH, 0))
        finally:
            os.close(group)
    finally:
        os.close(loaded)


def _bpf(command: int, attributes: bytes) -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    number = _SYS_BPF.get(os.uname().machine, -1)
    found: int = libc.syscall(number, command, attributes, ctypes.c_size_t(len(attributes)))
    if found < 0:
        raise OSError(ctypes.get_errno(), f"bpf: {os.strerror(ctypes.get_errno())}")
    return found
