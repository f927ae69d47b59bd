"""What containerd shows of its own configuration in a verbose Status: for what older CRI has no call for."""

from __future__ import annotations

from typing import Any

import msgspec

from . import api_pb2 as api


def configuration(status: api.StatusResponse, part: str = "config") -> dict[str, Any]:
    """{} for runtimes that show none. `cniconfig` is the part about the network."""
    try:
        found = msgspec.json.decode(status.info.get(part, "{}"))
    except msgspec.DecodeError:
        return {}
    return found if isinstance(found, dict) else {}


def uses_systemd(configuration: dict[str, Any]) -> bool:
    """Whether containers of the default runtime are put into cgroups by systemd."""
    containerd = configuration.get("containerd") or {}
    chosen = (containerd.get("runtimes") or {}).get(containerd.get("defaultRuntimeName") or "runc") or {}
    return bool((chosen.get("options") or {}).get("SystemdCgroup") or configuration.get("systemdCgroup"))
