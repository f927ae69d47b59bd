"""The RuntimeDefault seccomp profile: system calls that no container needs are refused with EPERM.

A short deny list of calls that change the machine, load code into the kernel or create namespaces, rather than a long
allow list: unknown calls of newer programs keep working. On architectures other than the two known ones, programs run
unfiltered.
"""

from __future__ import annotations

import ctypes
import os
import struct

from . import linux

_ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_REFUSED = {
    "pivot_root": (155, 41),
    "mount": (165, 40),
    "umount2": (166, 39),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "open_by_handle_at": (304, 265),
    "quotactl": (179, 60),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "acct": (163, 89),
    "reboot": (169, 142),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "syslog": (103, 116),
    "init_module": (175, 105),
    "delete_module": (176, 106),
    "finit_module": (313, 273),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "unshare": (272, 97),
    "setns": (308, 268),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
}
"""The refused calls, each with its number on x86_64 and on aarch64."""
_FOREIGN = 0x40000000
"""x86_64 has a second set of numbers (x32) from here on; it is used only to get around filters."""
_LOAD, _JUMP_EQUAL, _JUMP_FROM, _RETURN = 0x20, 0x15, 0x35, 0x06
_ALLOW, _EPERM = 0x7FFF0000, 0x00050001


def program(machine: str) -> bytes | None:
    """The filter as BPF instructions (code, jump if true, jump if false, value)."""
    if machine not in _ARCHITECTURES:
        return None
    refused = [numbers[0 if machine == "x86_64" else 1] for numbers in _REFUSED.values()]
    rows = [(_LOAD, 0, 0, 4), (_JUMP_EQUAL, 1, 0, _ARCHITECTURES[machine]), (_RETURN, 0, 0, _EPERM), (_LOAD, 0, 0, 0)]
    rows += [(_JUMP_FROM, len(refused) + 1, 0, _FOREIGN)]
    rows += [(_JUMP_EQUAL, len(refused) - at, 0, number) for at, number in enumerate(refused)]
    rows += [(_RETURN, 0, 0, _ALLOW), (_RETURN, 0, 0, _EPERM)]
    return b"".join(struct.pack("HBBI", *row) for row in rows)


def confine() -> None:
    """Installs the filter for the rest of this process and its children; the last step before exec."""
    code = program(os.uname().machine)
    if code is None:
        return
    buffer = ctypes.create_string_buffer(code, len(code))
    filter_ = struct.pack("HxxxxxxP", len(code) // 8, ctypes.addressof(buffer))
    linux.prctl(linux.PR_SET_SECCOMP, 2, ctypes.create_string_buffer(filter_, len(filter_)))
