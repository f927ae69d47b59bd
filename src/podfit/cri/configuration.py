"""containerd's own configuration in a verbose Status, for settings that older CRI versions do not expose."""

from __future__ import annotations

from typing import Any

import msgspec

from . import api_pb2 as api


def configuration(status: api.StatusResponse, part: str = "config") -> dict[str, Any]:
    """{} for runtimes without one. `cniconfig` is the network part."""
    try:
        found = msgspec.json.decode(status.info.get(part, "{}"))
    except msgspec.DecodeError:
        return {}
    return found if isinstance(found, dict) else {}


def uses_systemd(configuration: dict[str, Any]) -> bool:
    """Whether systemd manages the cgroups of the default runtime's containers."""
    containerd = configuration.get("containerd") or {}
    chosen = (containerd.get("runtimes") or {}).get(containerd.get("defaultRuntimeName") or "runc") or {}
    return bool((chosen.get("options") or {}).get("SystemdCgroup") or configuration.get("systemdCgroup"))
