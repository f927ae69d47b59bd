"""Builds the guest of VM pods as an OCI archive: Debian's cloud kernel, and an initramfs of busybox and qemu-ga.

All packages are downloaded and unpacked, none is installed; the result is cached beside the cgroup v2 guest.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import re
import shutil
import tarfile
from pathlib import Path

from tests.e2e.guest.image import Archive, CannotBuild, _libraries, _run, alone, cache_folder, kernel

HERE = Path(__file__).resolve().parent
VERSION = "1"
# In the order of their dependencies, so that insmod suffices to load them.
MODULES = """
virtio_ring virtio virtio_pci_legacy_dev virtio_pci_modern_dev virtio_pci virtio_console virtio_balloon virtio_mem
virtio_blk failover net_failover virtio_net button evdev fuse virtiofs cdrom isofs
"""
APPLETS = """
acpid ash awk base64 cat chmod cp cttyhack cut date dd df dirname dmesg echo env expr false find free grep head hostname
httpd id ifconfig insmod ip kill ln ls lsmod md5sum mkdir mkfifo mount mv nc nproc poweroff printf ps pwd reboot rm sed
seq setsid sh sleep sort stat stty sync tail tar test timeout touch tr true tty udhcpc umount uname wc wget yes
"""
# By default a guest of 256 MiB loses 64 MiB to a bounce buffer that it does not need. On a busy machine, the
# kernel's check would take an emulated timer that fires late for a broken one.
CMDLINE = "console=ttyS0 quiet panic=-1 no_timer_check swiotlb=512 memhp_default_state=online_movable"
SHUTDOWN = b"#!/bin/sh\nsync\nexec poweroff -f\n"
PGREP = b"""#!/bin/sh
for pid in /proc/[0-9]*; do
  [ "$(cat "$pid/comm" 2>&-)" = "$1" ] && echo "${pid#/proc/}" && found=yes
done
[ -n "$found" ]
"""
LEASE = b"""#!/bin/sh
[ "$1" = bound ] || exit 0
ip addr add "$ip/${mask:-24}" dev "$interface"
ip route add default via "$router"
"""


def guest() -> tuple[Path, Path]:
    """The kernel and the initramfs."""
    image, modules = kernel()
    with alone(cache_folder() / "agent"):
        return image, _initramfs(modules, _agent())


def _initramfs(modules: Path, agent: Path) -> Path:
    parts = [VERSION, modules.name, CMDLINE, (HERE / "vm-init.sh").read_text(), Path(__file__).read_text()]
    key = hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]
    target = cache_folder() / f"vm-{key}.img"
    if not target.exists():
        plain = io.BytesIO()
        archive = Archive(plain)
        _fill(archive, modules, agent)
        archive.close()
        partial = target.with_suffix(".partial")
        partial.write_bytes(gzip.compress(plain.getvalue(), 9, mtime=0))
        partial.rename(target)
    return target


def oci_archive(target: Path, reference: str, files: dict[str, Path], labels: dict[str, str] | None = None) -> Path:
    """An OCI image of one layer with these files, in the form that `podfit image load` and `ctr images import` read."""
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as tar:
        for name, source in files.items():
            entry = tarfile.TarInfo(name.lstrip("/"))
            entry.size, entry.mode = source.stat().st_size, 0o644
            with source.open("rb") as content:
                tar.addfile(entry, content)
    blobs: dict[str, bytes] = {}

    def blob(content: bytes, kind: str) -> dict[str, object]:
        digest = hashlib.sha256(content).hexdigest()
        blobs[digest] = content
        return {"mediaType": kind, "digest": f"sha256:{digest}", "size": len(content)}

    plain = layer.getvalue()
    described = blob(plain, "application/vnd.oci.image.layer.v1.tar")
    config = {
        "architecture": "amd64",
        "os": "linux",
        "config": {"Labels": labels or {}},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(plain).hexdigest()}"]},
    }
    manifest = {
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": blob(json.dumps(config).encode(), "application/vnd.oci.image.config.v1+json"),
        "layers": [described],
    }
    entry = blob(json.dumps(manifest).encode(), "application/vnd.oci.image.manifest.v1+json")
    names = {"io.containerd.image.name": reference, "org.opencontainers.image.ref.name": reference.rpartition(":")[2]}
    index = {"schemaVersion": 2, "manifests": [{**entry, "annotations": names}]}
    with tarfile.open(target, "w") as tar:
        _put(tar, "oci-layout", b'{"imageLayoutVersion":"1.0.0"}')
        _put(tar, "index.json", json.dumps(index).encode())
        for digest, content in blobs.items():
            _put(tar, f"blobs/sha256/{digest}", content)
    return target


def guest_archive(target: Path, reference: str = "podfit.dev/vm-guest:1", cmdline: str = CMDLINE) -> Path:
    """The guest for direct boot: kernel, initramfs, and the command line as a label."""
    image, initramfs = guest()
    files = {"/boot/vmlinuz": image, "/boot/initrd.img": initramfs}
    return oci_archive(target, reference, files, {"podfit.dev/vm-cmdline": cmdline})


def _put(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(content)
    tar.addfile(entry, io.BytesIO(content))


def _agent() -> Path:
    """Unpacks Debian's qemu-guest-agent and the libraries it needs."""
    folder = cache_folder() / "agent"
    binary = folder / "usr/sbin/qemu-ga"
    if not binary.exists():
        folder.mkdir(exist_ok=True)
        _run("apt-get", "download", "qemu-guest-agent", "liburing2", "libnuma1", cwd=folder)
        for package in folder.glob("*.deb"):
            _run("dpkg", "-x", str(package), str(folder))
            package.unlink()
    return binary


def _fill(archive: Archive, modules: Path, agent: Path) -> None:
    for folder in (
        "/proc",
        "/sys",
        "/dev",
        "/tmp",
        "/run",
        "/root",
        "/var",
        "/mnt",
        "/etc/acpi/PWRF",
        "/www",
        "/usr/bin",
    ):
        archive.add_folder(folder)
    busybox = shutil.which("busybox")
    if busybox is None:
        raise CannotBuild("busybox is not installed")
    archive.add_file(Path(busybox), "/bin/busybox")
    for applet in APPLETS.split():
        archive.add_link(f"/bin/{applet}", "busybox")
    archive.add_file(agent, "/sbin/qemu-ga")
    needed = _needed(agent)
    if (script := shutil.which("script")) is not None:
        # A terminal for commands.
        archive.add_file(Path(script), "/bin/script")
        needed.update({path: Path(path).resolve() for path in _libraries(Path(script))})
    for name, source in needed.items():
        archive.add_file(source, name)
    order = []
    for module in MODULES.split():
        found = next(modules.glob(f"**/{module}.ko*"), None)
        if found is not None:
            archive.add_file(found, f"/modules/{found.name}")
            order.append(found.name)
    archive.add_bytes("/modules/order", " ".join(order).encode())
    archive.add_bytes("/etc/passwd", b"root:x:0:0:root:/root:/bin/sh\n")
    archive.add_bytes("/etc/group", b"root:x:0:\n")
    archive.add_bytes("/www/index.html", b"a VM pod\n")
    scripts = {
        "/sbin/shutdown": SHUTDOWN,
        "/etc/acpi/PWRF/00000080": SHUTDOWN,
        "/sbin/dhcp": LEASE,
        "/bin/pgrep": PGREP,
    }
    for name, content in scripts.items():
        archive._entry(name, 0o100755, content)
    archive.add_file(HERE / "vm-init.sh", "/init")


def _needed(agent: Path) -> dict[str, Path]:
    """The agent's libraries, by the names under which the loader looks for them."""
    unpacked = {path.name: path for path in agent.parents[2].glob("usr/lib/x86_64-linux-gnu/*.so*")}
    found = {path: Path(path).resolve() for path in _libraries(agent)}
    for path in list(found):
        if re.sub(r".*/", "", path) in unpacked:
            found[path] = unpacked[Path(path).name].resolve()
    if len(found) < 5:
        raise CannotBuild("the libraries of qemu-guest-agent are not installed")
    return found
