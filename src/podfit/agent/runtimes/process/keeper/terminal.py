"""Creates terminals of containers in the container's devpts, so that they have a name there (`tty` prints it), and
passes them out.

The program's end is opened inside the container, by the child that becomes the program; the other end is sent over a
socket to the process that copies it: the keeper for containers, the agent for execs.
"""

from __future__ import annotations

import array
import fcntl
import os
import socket
import struct
import termios

_TIOCSPTLCK, _TIOCGPTPEER = 0x40045431, 0x5441


def become_terminal(console: int, uid: int | None) -> None:
    """Called in the container: makes a new terminal this process's input, output and errors, and sends the other end
    out."""
    master = _open_master()
    fcntl.ioctl(master, _TIOCSPTLCK, struct.pack("i", 0))
    # Opened by ioctl, not by name: a name would be resolved in whatever /dev the image has.
    slave = int(fcntl.ioctl(master, _TIOCGPTPEER, os.O_RDWR | os.O_NOCTTY))
    if uid:
        os.fchown(slave, uid, -1)
    with socket.socket(fileno=console) as out:
        out.sendmsg([b"t"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [master]))])
    os.close(master)
    for target in (0, 1, 2):
        os.dup2(slave, target)
    os.close(slave)
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def _open_master() -> int:
    for name in ("/dev/pts/ptmx", "/dev/ptmx"):
        try:
            return os.open(name, os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
        except FileNotFoundError:
            continue
        except PermissionError:
            # A privileged container uses the host's devpts, whose own ptmx has no permissions; the one next to it does.
            continue
    raise OSError(2, "No terminals", "/dev/ptmx")


def receive_terminal(console: socket.socket) -> int:
    """Receives the other end of the terminal; -1 if none arrived."""
    console.setblocking(False)
    try:
        _, ancillary, _, _ = console.recvmsg(1, socket.CMSG_LEN(4))
    except OSError:
        return -1
    for level, kind, payload in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS) and len(payload) >= 4:
            descriptor = int(array.array("i", payload[:4])[0])
            os.set_inheritable(descriptor, False)
            return descriptor
    return -1
