"""Prepares a forked keeper to become the container's program: root, mounts, privileges, then exec.

Runs in the child, as PID 1 of the container's pid namespace (unless the pod shares one). Failures are reported through
the status pipe and the child exits. The cgroup is joined last, just before exec: the interpreter's own pages must not
count against a container with a limit of a few MiB.
"""

from __future__ import annotations

import errno
import json
import os
import signal
import stat
from contextlib import suppress
from typing import Any

from . import beneath, linux, seccomp
from .terminal import become_terminal

Spec = dict[str, Any]
"""The content of launch.json, written by the agent; records.py lists its fields."""

_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
_KINDS = {"uts": linux.CLONE_NEWUTS, "ipc": linux.CLONE_NEWIPC, "net": linux.CLONE_NEWNET}
_MASKED = ("/proc/kcore", "/proc/keys", "/proc/sysrq-trigger", "/proc/timer_list")
_REAL_FILESYSTEMS = {
    "ext2",
    "ext3",
    "ext4",
    "xfs",
    "btrfs",
    "f2fs",
    "zfs",
    "virtiofs",
    "9p",
    "overlay",
    "erofs",
    "squashfs",
}


def reset_signals() -> None:
    """Restores default signal handling, whatever Python, nohup or a shell's background job ignores."""
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def words(error: BaseException) -> str:
    """The system's error message, without its number and Python's name for it."""
    if not isinstance(error, OSError) or error.strerror is None:
        return str(error) or type(error).__name__
    return f"{error.strerror}: {error.filename}" if error.filename else error.strerror


def fail(status: int, error: BaseException) -> None:
    os.write(status, json.dumps({"error": words(error)}).encode())
    os._exit(128)


def run(spec: Spec, stdio: tuple[int, ...], namespaces: dict[str, int], status: int) -> None:
    """`stdio`: the program's 0, 1 and 2 or, for a terminal, the socket over which its other end is sent.

    Never returns.
    """
    try:
        reset_signals()
        os.setsid()
        _attach_stdio(stdio, bool(spec["tty"]))
        for name, descriptor in namespaces.items():
            linux.setns(descriptor, _KINDS[name])
        joins = _open_groups(spec)
        linux.unshare(linux.CLONE_NEWNS)
        linux.mount("", "/", flags=linux.MS_REC | linux.MS_SLAVE)
        _build_root(spec)
        _enter(os.path.join(spec["folder"], "root"))
        if spec["tty"]:
            become_terminal(stdio[0], spec["uid"])
        _score(int(spec["oom_score_adj"]))
        for descriptor in joins:
            os.write(descriptor, b"0")
        linux.unshare(linux.CLONE_NEWCGROUP)
        execute(spec)
    except BaseException as error:
        fail(status, error)


def run_in(spec: Spec, stdio: tuple[int, ...], process: int, status: int) -> None:
    """Runs a further program in the running container of the pidfd `process`. Never returns."""
    try:
        reset_signals()
        os.setsid()
        _attach_stdio(stdio, bool(spec["tty"]))
        joins = _open_groups(spec)
        linux.setns(process, linux.CLONE_NEWNS | linux.CLONE_NEWUTS | linux.CLONE_NEWIPC | linux.CLONE_NEWNET)
        if spec["tty"]:
            become_terminal(stdio[0], spec["uid"])
        _score(int(spec["oom_score_adj"]))
        for descriptor in joins:
            os.write(descriptor, b"0")
        linux.setns(process, linux.CLONE_NEWCGROUP)
        execute(spec)
    except BaseException as error:
        fail(status, error)


def execute(spec: Spec) -> None:
    """Becomes the program, from inside the container's root. Also the last step of an exec."""
    directory = str(spec["working_dir"] or "/")
    try:
        os.chdir(directory)
    except FileNotFoundError:
        os.makedirs(directory, exist_ok=True)
        os.chdir(directory)
    _limit_power(spec)
    environment = {str(k): str(v) for k, v in spec["environment"].items()}
    program = spec["argv"][0]
    try:
        os.execvpe(program, spec["argv"], environment)
    except FileNotFoundError:
        why = f"stat {program}: no such file or directory" if "/" in program else "executable file not found in $PATH"
        raise RuntimeError(f'exec: "{program}": {why}') from None
    except OSError as error:
        raise RuntimeError(f'exec: "{program}": {os.strerror(error.errno or 0).lower()}') from None


def _open_groups(spec: Spec) -> list[int]:
    """The cgroups to join. Those of `cgroup_pins` exist only while the container's CPUs are restricted."""
    opened = [os.open(path, os.O_WRONLY | os.O_CLOEXEC) for path in spec["cgroup_joins"]]
    for path in spec.get("cgroup_pins", ()):
        with suppress(FileNotFoundError):
            opened.append(os.open(path, os.O_WRONLY | os.O_CLOEXEC))
    return opened


def _attach_stdio(stdio: tuple[int, ...], tty: bool) -> None:
    if not tty:
        for target, descriptor in enumerate(stdio):
            os.dup2(descriptor, target)


def _build_root(spec: Spec) -> None:
    folder, lower = spec["folder"], spec["rootfs"] or "/"
    root = os.path.join(folder, "root")
    for name in ("root", "upper", "work"):
        os.makedirs(os.path.join(folder, name), mode=0o755, exist_ok=True)
    try:
        own = folder.replace("\\", "\\\\").replace(",", "\\,")
        below = lower.replace("\\", "\\\\").replace(",", "\\,").replace(":", "\\:")
        linux.mount("overlay", root, "overlay", data=f"lowerdir={below},upperdir={own}/upper,workdir={own}/work")
    except OSError as error:
        if error.errno not in (errno.ENODEV, errno.EINVAL):
            raise
        # This kernel or file system has no overlay: the container writes to the image's (or the host's) own files.
        linux.mount(lower, root, flags=linux.MS_BIND | linux.MS_REC)
    if lower == "/":
        _bind_host_disks(root, spec["hidden"])
        _hide(root + spec["hidden"])
    _mount_kernel(root, spec)
    _bind_all(root, spec)
    if spec["read_only_root"]:
        linux.mount("", root, flags=linux.MS_REMOUNT | linux.MS_BIND | linux.MS_RDONLY)


def _hide(path: str) -> None:
    """Hides podfit's own files (keys, the store, other pods' files) from the container."""
    if os.path.isdir(path):
        linux.mount("tmpfs", path, "tmpfs", linux.MS_NOSUID | linux.MS_NODEV | linux.MS_NOEXEC, "mode=000,size=4k")
        linux.mount("", path, flags=linux.MS_REMOUNT | linux.MS_BIND | linux.MS_RDONLY)


def _bind_host_disks(root: str, hidden: str) -> None:
    """An overlay shows one file system: the host's mounts below it are bound read-only."""
    with open("/proc/self/mountinfo") as table:
        rows = [line.split() for line in table]
    for row in rows:
        point, kind = row[4], row[row.index("-") + 1]
        if point == "/" or kind not in _REAL_FILESYSTEMS or point.startswith((hidden, "/proc", "/sys", "/dev")):
            continue
        target = root + point
        if os.path.isdir(point) and os.path.isdir(target):
            linux.mount(point, target, flags=linux.MS_BIND)
            linux.mount("", target, flags=linux.MS_REMOUNT | linux.MS_BIND | linux.MS_RDONLY)


def _mount_kernel(root: str, spec: Spec) -> None:
    for name in ("proc", "sys", "dev"):
        os.makedirs(f"{root}/{name}", exist_ok=True)
    plain = linux.MS_NOSUID | linux.MS_NODEV | linux.MS_NOEXEC
    linux.mount("proc", f"{root}/proc", "proc", plain)
    if spec.get("network"):
        # sysfs needs a mount of its own: it shows the links of the namespace in which it was mounted.
        linux.mount("sysfs", f"{root}/sys", "sysfs", plain)
    else:
        linux.mount("/sys", f"{root}/sys", flags=linux.MS_BIND)
    linux.mount("", f"{root}/sys", flags=linux.MS_REMOUNT | linux.MS_BIND | linux.MS_RDONLY)
    _mount_cgroups(root, spec["cgroup_views"])
    if spec["privileged"]:
        linux.mount("/dev", f"{root}/dev", flags=linux.MS_BIND | linux.MS_REC)
        return
    _mount_devices(f"{root}/dev")
    linux.mount(f"{root}/proc/sys", f"{root}/proc/sys", flags=linux.MS_BIND)
    linux.mount("", f"{root}/proc/sys", flags=linux.MS_REMOUNT | linux.MS_BIND | linux.MS_RDONLY | plain)
    for path in _MASKED:
        if os.path.exists(root + path):
            linux.mount("/dev/null", root + path, flags=linux.MS_BIND)


def _mount_cgroups(root: str, views: dict[str, str]) -> None:
    """Mounts the container's own cgroup, read-only, where programs look for their limits: "" is v2, else v1's names."""
    base = f"{root}/sys/fs/cgroup"
    if not os.path.isdir(base):
        return
    if "" not in views:
        linux.mount("tmpfs", base, "tmpfs", data="mode=755,size=64k")
    for name, source in views.items():
        target = f"{base}/{name}" if name else base
        os.makedirs(target, exist_ok=True)
        linux.mount(source, target, flags=linux.MS_BIND)
        linux.mount("", target, flags=linux.MS_REMOUNT | linux.MS_BIND | linux.MS_RDONLY)


def _mount_devices(dev: str) -> None:
    linux.mount("tmpfs", dev, "tmpfs", linux.MS_NOSUID, "mode=755,size=64k")
    for name in _DEVICES:
        if os.path.exists(f"/dev/{name}"):
            os.close(os.open(f"{dev}/{name}", os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC))
            linux.mount(f"/dev/{name}", f"{dev}/{name}", flags=linux.MS_BIND)
    for link, target in (
        ("fd", "/proc/self/fd"),
        ("stdin", "/proc/self/fd/0"),
        ("stdout", "/proc/self/fd/1"),
        ("stderr", "/proc/self/fd/2"),
        ("ptmx", "pts/ptmx"),
    ):
        os.symlink(target, f"{dev}/{link}")
    for name in ("pts", "shm"):
        os.mkdir(f"{dev}/{name}")
    linux.mount(
        "devpts", f"{dev}/pts", "devpts", linux.MS_NOSUID | linux.MS_NOEXEC, "newinstance,ptmxmode=0666,mode=620"
    )
    linux.mount("tmpfs", f"{dev}/shm", "tmpfs", linux.MS_NOSUID | linux.MS_NODEV, "mode=1777")


def _bind_all(root: str, spec: Spec) -> None:
    top = os.open(root, os.O_PATH | os.O_CLOEXEC)
    for source, path, read_only, sub in sorted(spec["mounts"], key=lambda item: str(item[1])):
        held = os.open(source, os.O_PATH | os.O_CLOEXEC)
        if sub:
            volume, held = held, beneath.open_beneath(held, sub)
            os.close(volume)
        folder = stat.S_ISDIR(os.fstat(held).st_mode)
        target = beneath.make_folders(top, path, 0o755, True) if folder else beneath.make_file(top, path)
        linux.mount(beneath.path_of(held), beneath.path_of(target), flags=linux.MS_BIND | linux.MS_REC)
        os.close(target)
        # The mount covers the target: it is opened again to change it.
        target = beneath.open_inside(top, path)
        if not sub and spec["hidden"].startswith(source.rstrip("/") + "/"):
            _hide(beneath.path_of(target) + spec["hidden"].removeprefix(source.rstrip("/")))
        if read_only:
            linux.mount("", beneath.path_of(target), flags=linux.MS_REMOUNT | linux.MS_BIND | linux.MS_RDONLY)
        os.close(target)
        os.close(held)
    os.close(top)


def _enter(root: str) -> None:
    os.chdir(root)
    try:
        linux.pivot_root(".", ".")
        linux.unmount(".", linux.MNT_DETACH)
    except OSError:
        # EINVAL: an initramfs does not support pivot_root; moving the mount over it hides it as well.
        linux.mount(root, "/", flags=linux.MS_MOVE)
        os.chroot(".")
    os.chdir("/")


def _score(adjustment: int) -> None:
    try:
        with open("/proc/self/oom_score_adj", "w") as score:
            score.write(str(adjustment))
    except OSError:
        # EACCES: lowering the score requires CAP_SYS_RESOURCE, which not every root user has. The score is best effort.
        return


def _limit_power(spec: Spec) -> None:
    if not spec["privileged"]:
        linux.drop_bounding_set(frozenset(spec["capabilities"]))
    if spec["seccomp"] == "RuntimeDefault" and "SYS_ADMIN" not in spec["capabilities"]:
        # The filter is installed before the user changes: without no_new_privs it requires the privileges of root.
        seccomp.confine()
    _change_user(spec["uid"] or 0, spec["gid"] or 0, spec["groups"])
    if spec["no_new_privileges"]:
        linux.prctl(linux.PR_SET_NO_NEW_PRIVS, 1)


def _change_user(uid: int, gid: int, groups: list[int]) -> None:
    """Changes the user and groups that differ: not every root user may change its groups."""
    if {gid, *groups} != {os.getgid(), *os.getgroups()}:
        os.setgroups(groups)
    if gid != os.getgid():
        os.setgid(gid)
    if uid != os.getuid():
        os.setuid(uid)
