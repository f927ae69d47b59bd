"""Preallocates disk space beyond the end of a file, so that later writes cannot fail for lack of space.

No other program can take that space, and it stays allocated when the process is killed. Truncating the file releases
it.
"""

from __future__ import annotations

import ctypes
import errno
import os

_KEEP_SIZE = 0x01
_UNSUPPORTED = (errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL, errno.ENODEV)
_libc = ctypes.CDLL(None, use_errno=True)


def preallocate(descriptor: int, end: int, room: int) -> bool:
    """Ensures that the file can grow by `room` bytes from its `end`; False if its file system does not support that.

    Raises OSError (ENOSPC) if there is not enough space; part of it may be allocated then.
    """
    while True:
        if not _libc.fallocate(descriptor, _KEEP_SIZE, ctypes.c_int64(end), ctypes.c_int64(room)):
            return True
        number = ctypes.get_errno()
        if number in _UNSUPPORTED:
            return False
        if number != errno.EINTR:
            raise OSError(number, os.strerror(number))
