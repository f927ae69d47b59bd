"""Builds the image that the cgroup v2 guest boots: Debian's cloud kernel and an initramfs with Python, pytest and the
runtime.

The base (kernel, Python, pytest, busybox) is built once per version and cached; the sources are a second archive that
the kernel unpacks over it, rebuilt for each run. Only QEMU and busybox need to be installed; the kernel package is
downloaded and unpacked.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import shutil
import stat
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parents[2]
PACKAGES = [
    "pytest",
    "_pytest",
    "pytest_asyncio",
    "pluggy",
    "iniconfig",
    "packaging",
    "msgspec",
    "aiohttp",
    "aiohappyeyeballs",
    "aiosignal",
    "attr",
    "attrs",
    "frozenlist",
    "idna",
    "multidict",
    "prometheus_client",
    "propcache",
    "yarl",
    "pygments",
    "typing_extensions.py",
    "py.py",
]
UNWANTED = {"test", "tests", "idlelib", "tkinter", "lib2to3", "ensurepip", "turtledemo", "site-packages", "pydoc_data"}
APPLETS = (
    "sh ash cat echo env false grep head id kill ls mkdir mount ps poweroff printf seq sleep stty tail test touch"
    " tr true tty umount uname unshare wc insmod ifconfig"
)
VERSION = "11"


class CannotBuild(Exception):
    """The machine lacks something that cannot be installed; the message names it."""


def cache_folder() -> Path:
    home = os.environ.get("XDG_CACHE_HOME")
    folder = Path(home) / "podfit" / "guest" if home else REPOSITORY / ".cache" / "guest"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def qemu() -> str:
    found = shutil.which("qemu-system-x86_64")
    if found is None:
        _run("apt-get", "install", "-y", "--no-install-recommends", "qemu-system-x86")
        found = shutil.which("qemu-system-x86_64")
    if found is None:
        raise CannotBuild("qemu-system-x86_64 is not installed and could not be")
    return found


def kernel() -> tuple[Path, Path]:
    """The kernel, and the folder of its modules."""
    folder = cache_folder() / "kernel"
    with alone(folder):
        _fetch_kernel(folder)
    return next(folder.glob("boot/vmlinuz-*")), next((folder / "lib/modules").iterdir())


@contextlib.contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Lets one process at a time build a part of the cache; others wait and find it built."""
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _fetch_kernel(folder: Path) -> None:
    if not list(folder.glob("boot/vmlinuz-*")):
        meta = _run("apt-cache", "depends", "linux-image-cloud-amd64")
        name = re.search(r"Depends: (linux-image-\S+)", meta)
        if name is None:
            raise CannotBuild("apt knows no linux-image-cloud-amd64")
        folder.mkdir(exist_ok=True)
        _run("apt-get", "download", name[1], cwd=folder)
        package = next(folder.glob("linux-image-*.deb"))
        _run("dpkg", "-x", str(package), str(folder))
        package.unlink()


def base_archive(modules: Path) -> Path:
    site = Path(sysconfig.get_paths()["purelib"])
    versions = sorted(
        path.name for path in site.glob("*.dist-info") if path.name.startswith(("pytest", "msgspec", "aiohttp"))
    )
    key = hashlib.sha256("\n".join([VERSION, sys.version, modules.name, *versions]).encode()).hexdigest()[:16]
    target = cache_folder() / f"base-{key}.cpio"
    with alone(target):
        if not target.exists():
            partial = target.with_suffix(".partial")
            with partial.open("wb") as file:
                archive = Archive(file)
                _add_base(archive, modules, site)
                archive.close()
            partial.rename(target)
    return target


def source_archive(target: Path, tests: list[Path]) -> None:
    with target.open("wb") as file:
        archive = Archive(file)
        archive.add_tree(REPOSITORY / "src/podfit", "/podfit/src/podfit")
        for test in tests:
            archive.add_tree(test, f"/podfit/tests/{test.name}")
        archive.add_tree(HERE / "init.sh", "/init")
        archive.close()


def _add_base(archive: Archive, modules: Path, site: Path) -> None:
    for folder in ("/proc", "/sys", "/dev", "/tmp", "/etc", "/root", "/var", "/usr", "/sbin", "/usr/bin"):
        archive.add_folder(folder)
    busybox = shutil.which("busybox") or _install_busybox()
    archive.add_file(Path(busybox), "/bin/busybox")
    for applet in APPLETS.split():
        archive.add_link(f"/bin/{applet}", "busybox")
    archive.add_bytes("/etc/passwd", b"root:x:0:0:root:/root:/bin/sh\n")
    overlay = next(modules.glob("kernel/fs/overlayfs/overlay.ko*"))
    archive.add_file(overlay, "/overlay.ko")
    prefix, version = Path(sys.base_prefix), f"python{sys.version_info[0]}.{sys.version_info[1]}"
    binary = (prefix / "bin" / version).resolve()
    archive.add_file(binary, f"{prefix}/bin/{version}")
    archive.add_link("/bin/python3", f"{prefix}/bin/{version}")
    archive.add_tree(prefix / "lib" / version, f"{prefix}/lib/{version}")
    natives = [binary, *(prefix / "lib" / version / "lib-dynload").glob("*.so"), *site.glob("msgspec/*.so")]
    for library in sorted({path for native in natives for path in _libraries(native)}):
        archive.add_file(Path(library).resolve(), library)
    described = [path.name for path in site.glob("*.dist-info") if path.name.startswith(("pytest", "pluggy"))]
    for package in [*PACKAGES, *(name for name in described if "xdist" not in name)]:
        archive.add_tree(site / package, f"/site/{package}")


def _install_busybox() -> str:
    _run("apt-get", "install", "-y", "--no-install-recommends", "busybox-static")
    return shutil.which("busybox") or ""


def _libraries(native: Path) -> list[str]:
    output = subprocess.run(["ldd", str(native)], capture_output=True, text=True, check=False).stdout
    return re.findall(r"(/\S+) \(0x", output)


def _run(*command: str, cwd: Path | None = None) -> str:
    try:
        done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=True, timeout=300)
    except (OSError, subprocess.SubprocessError) as error:
        raise CannotBuild(f"{' '.join(command)}: {error}") from error
    return done.stdout


class Archive:
    """An initramfs in the kernel's `newc` format."""

    def __init__(self, file: object) -> None:
        self._write = file.write  # type: ignore[attr-defined]
        self._inode = 0
        self._folders: set[str] = set()
        self._size = 0

    def add_tree(self, source: Path, target: str) -> None:
        if source.is_file():
            self.add_file(source, target)
            return
        for path in _walk(source):
            self.add_file(path, f"{target}/{path.relative_to(source)}")

    def add_file(self, source: Path, target: str) -> None:
        about = source.stat()
        # Times are kept: a .pyc is valid only for a source of the same second, and compiling is slow in an emulator.
        self._entry(target, stat.S_IFREG | (about.st_mode & 0o777), source.read_bytes(), int(about.st_mtime))

    def add_bytes(self, target: str, content: bytes) -> None:
        self._entry(target, stat.S_IFREG | 0o644, content)

    def add_link(self, target: str, to: str) -> None:
        self._entry(target, stat.S_IFLNK | 0o777, to.encode())

    def add_folder(self, target: str) -> None:
        if target in ("", "/") or target in self._folders:
            return
        self._folders.add(target)
        self._entry(target, stat.S_IFDIR | 0o755, b"")

    def _entry(self, target: str, mode: int, content: bytes, changed: int = 0) -> None:
        self.add_folder(os.path.dirname(target))
        self._inode += 1
        self._raw(target.lstrip("/"), mode, content, changed)

    def _raw(self, name: str, mode: int, content: bytes, changed: int = 0) -> None:
        numbers = (self._inode, mode, 0, 0, 1, changed, len(content), 0, 0, 0, 0, len(name.encode()) + 1, 0)
        head = b"070701" + b"".join(b"%08X" % number for number in numbers) + name.encode() + b"\0"
        self._padded(head)
        self._padded(content)

    def _padded(self, data: bytes) -> None:
        self._write(data + b"\0" * (-len(data) % 4))

    def close(self) -> None:
        self._raw("TRAILER!!!", 0, b"")


def _walk(folder: Path) -> Iterator[Path]:
    for base, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in UNWANTED and not name.startswith("config-"))
        for name in sorted(files):
            if not name.endswith((".opt-1.pyc", ".opt-2.pyc", ".a", ".exe")):
                yield Path(base) / name
