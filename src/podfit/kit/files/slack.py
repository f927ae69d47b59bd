"""Room on the disk that a file has beyond its end: writes that extend the file later cannot fail for want of space.

Nobody else can take it, however full the disk becomes, and it stays with the file when the process is killed. A file
that is truncated loses it.
"""

from __future__ import annotations

import ctypes
import errno
import os

_KEEP_SIZE = 0x01
_UNSUPPORTED = (errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL, errno.ENODEV)
_libc = ctypes.CDLL(None, use_errno=True)


def take_slack(descriptor: int, end: int, room: int) -> bool:
    """Makes sure that the file can grow from its `end` by `room` bytes; False if its file system cannot promise it.

    Raises OSError (ENOSPC) where there is not as much room; some of it may be taken then.
    """
    while True:
        if not _libc.fallocate(descriptor, _KEEP_SIZE, ctypes.c_int64(end), ctypes.c_int64(room)):
            return True
        number = ctypes.get_errno()
        if number in _UNSUPPORTED:
            return False
        if number != errno.EINTR:
            raise OSError(number, os.strerror(number))
