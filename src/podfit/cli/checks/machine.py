"""Checks this machine: Python, kernel, capabilities, cgroups, limits, ports."""

from __future__ import annotations

import contextlib
import http.client
import importlib
import json
import os
import platform
import resource
import shutil
import socket
import ssl
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from podfit.cli.checks import Finding, fail, ok, tried, warn
from podfit.cli.checks.network import pod_network
from podfit.kit.process.oserrors import system_words
from podfit.kit.web.addresses import bracketed

NEEDED = ("aiohttp", "uvloop", "msgspec", "cryptography", "numpy", "sortedcontainers", "yaml", "jwt", "re2")
FILES, INSTANCES = 1024, 64
TIMEOUT_S = 2.0


def python_version(version: tuple[int, ...] = sys.version_info[:3]) -> Finding:
    shown = ".".join(map(str, version))
    if version >= (3, 11):
        return ok("python", shown)
    return fail("python", f"{shown} is too old", "install Python 3.11 or newer and recreate the environment")


def libraries(names: tuple[str, ...] = NEEDED) -> Finding:
    missing = []
    for name in names:
        try:
            importlib.import_module(name)
        except ImportError:
            missing.append(name)
    if missing:
        return fail("libraries", f"missing: {', '.join(missing)}", "pip install podfit (or `make setup` in a clone)")
    return ok("libraries", f"all {len(names)} load")


def etcd_library() -> Finding:
    try:
        importlib.import_module("aetcd")
    except ImportError:
        return warn("etcd library", "not installed", "only for --store etcd=…: pip install 'podfit[etcd]'")
    return ok("etcd library", "installed")


def kernel(system: str = platform.system(), release: str = platform.release()) -> Finding:
    if system != "Linux":
        return fail("kernel", f"{system}: no cgroups", "run pods on Linux; here use --runtime fake")
    numbers = tuple(int(part) for part in release.split("-")[0].split(".")[:2] if part.isdigit())
    if numbers < (5, 4):
        return warn("kernel", f"Linux {release} is older than what podfit is tried on", "use Linux 5.10 or newer")
    return ok("kernel", f"Linux {release}")


def privileges() -> Finding:
    from podfit.agent.runtimes.process.support import check_support

    missing = [problem for problem in check_support() if "cgroup" not in problem]
    if missing:
        return fail(
            "privileges", "; ".join(missing), "run as root (sudo), or use --runtime fake: nothing real runs then"
        )
    return ok("privileges", f"uid {os.geteuid()}, may make namespaces and mounts")


def cgroups() -> Finding:
    """Creates a cgroup, sets its limits and removes it."""
    from podfit.agent.runtimes.cgroups import detect
    from podfit.agent.runtimes.cgroups.files import mounted
    from podfit.agent.runtimes.values import RuntimeFailure

    advice = "mount the cpu and memory controllers writable (in a container: --privileged --cgroupns=host), be root"
    try:
        version = detect().version
        controllers, unified = mounted()
        points = [unified] if version == 2 else [controllers["cpu"], controllers["memory"]]
        for point in points:
            _try_cgroup(Path(str(point)))
    except (RuntimeFailure, OSError, KeyError) as error:
        return fail("cgroups", f"cannot be used: {system_words(error)}", advice)
    return ok("cgroups", f"v{version}, a test group could be made and limited")


def _try_cgroup(point: Path) -> None:
    folder = point / f"podfit-doctor-{os.getpid()}"
    folder.mkdir()
    try:
        for name, value in (
            ("cpu.cfs_quota_us", "50000"),
            ("memory.limit_in_bytes", str(64 << 20)),
            ("cpu.max", "50000 100000"),
            ("memory.max", str(64 << 20)),
        ):
            if (folder / name).exists():
                (folder / name).write_text(value)
    finally:
        folder.rmdir()


def swap(text: str | None = None) -> Finding:
    lines = (text if text is not None else Path("/proc/swaps").read_text()).splitlines()[1:]
    if lines:
        return warn("swap", f"{len(lines)} device(s) on", "memory limits hold less strictly with swap: swapoff -a")
    return ok("swap", "off")


def open_files(least: int = FILES) -> Finding:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < least:
        return warn("open files", f"limit {soft} (hard {hard})", f"ulimit -n {max(least, 65536)} before starting")
    return ok("open files", f"limit {soft}")


def inotify(least: int = INSTANCES, file: Path = Path("/proc/sys/fs/inotify/max_user_instances")) -> Finding:
    try:
        number = int(file.read_text())
    except (OSError, ValueError):
        return warn("inotify", "not known", "following logs needs inotify: a Linux kernel with CONFIG_INOTIFY_USER")
    if number < least:
        return warn("inotify", f"{number} instances", f"sysctl fs.inotify.max_user_instances={max(least, 1024)}")
    return ok("inotify", f"{number} instances")


def port(host: str, number: int) -> Finding:
    name = f"port {number}"
    try:
        with contextlib.closing(socket.create_server((host, number))):
            return ok(name, f"free on {host}")
    except OSError as error:
        if served := _podfit_at(host, number):
            return ok(name, f"podfit {served} serves {host}:{number}")
        advice = f"stop what uses it (ss -ltnp 'sport = :{number}'), or choose another: --listen {host}:0"
        return warn(name, f"{host}:{number} cannot be used: {error.strerror}", advice)


def _podfit_at(host: str, number: int) -> str:
    """The version of the podfit that listens on this port; "" if the server has another name."""
    where = f"https://{bracketed(host)}:{number}/version"
    blind = ssl.create_default_context()
    blind.check_hostname, blind.verify_mode = False, ssl.CERT_NONE
    try:
        with urllib.request.urlopen(where, timeout=TIMEOUT_S, context=blind) as answer:
            version = str(json.loads(answer.read(1 << 16)).get("gitVersion"))
    except (OSError, ValueError, AttributeError, http.client.HTTPException):
        return ""
    return version if "podfit" in version else ""


def kubectl(program: str = "kubectl") -> Finding:
    path = shutil.which(program)
    if path is None:
        return warn("kubectl", "not installed", "podfit's own commands work without it; apt install kubernetes-client")
    try:
        done = subprocess.run([path, "version", "--client"], capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return warn("kubectl", f"{path} does not run: {system_words(error)}", "install it again")
    words = (done.stdout.splitlines() or ["version unknown"])[0]
    return ok("kubectl", words.removeprefix("Client Version: "))


def all_machine_checks(host: str, number: int) -> Iterator[Finding]:
    checks: tuple[Callable[[], Finding], ...] = (
        python_version,
        libraries,
        etcd_library,
        kernel,
        privileges,
        cgroups,
        pod_network,
        swap,
        open_files,
        inotify,
        partial(port, host, number),
        kubectl,
    )
    for check in checks:
        yield tried(getattr(check, "__name__", "port").replace("_", " "), check)
