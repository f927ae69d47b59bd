"""The process runtime's requirements on the machine, as messages; an empty list means it can run here."""

from __future__ import annotations

import os
import platform

from podfit.agent.runtimes.cgroups import Cgroups, detect
from podfit.agent.runtimes.cgroups.files import mounted
from podfit.agent.runtimes.values import RuntimeFailure
from podfit.kit.process.privileges import CAP_SYS_ADMIN, has_capability

_NAMESPACES = ("pid", "mnt", "uts", "ipc", "cgroup")


def check_support() -> list[str]:
    if platform.system() != "Linux":
        return [f"the process runtime needs Linux, this is {platform.system()}"]
    missing = [
        f"the kernel has no {name} namespaces" for name in _NAMESPACES if not os.path.exists(f"/proc/self/ns/{name}")
    ]
    if not has_capability(CAP_SYS_ADMIN):
        missing.append("root with CAP_SYS_ADMIN is needed for namespaces and mounts")
    if not hasattr(os, "pidfd_open"):
        missing.append("this Python has no pidfd_open")
    missing += _check_cgroups()
    return missing


def _check_cgroups() -> list[str]:
    try:
        cgroups = detect()
    except (RuntimeFailure, OSError) as error:
        return [str(error)]
    controllers, unified = mounted()
    points = [unified] if cgroups.version == 2 else [controllers["cpu"], controllers["memory"]]
    return [
        f"cgroup v{cgroups.version} at {point} cannot be written" for point in points if not os.access(point, os.W_OK)
    ]


def require_support() -> Cgroups:
    missing = check_support()
    if missing:
        raise RuntimeFailure(
            f"the process runtime cannot run here: {'; '.join(missing)}. Run as root, or add --runtime fake"
        )
    return detect()
