"""Detects clients that can only decode types of Kubernetes 1.27 or later.

A Go client with typed objects accepts protobuf, or JSON and `*/*`; one with untyped objects accepts JSON only, or
tables. The User-Agent contains the version of both, as in `kubectl/v1.32.4 (linux/amd64) kubernetes/4c`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

_BUILT_FOR = re.compile(r"[^ /]+/v1\.(\d+)[^ ]* .*\bkubernetes/")
_NEWER = 27
"""The release in which `status.resize` became a string."""


def has_newer_types(headers: Mapping[str, str]) -> bool:
    accept = headers.get("accept", "")
    if "*/*" not in accept and "protobuf" not in accept:
        return False
    built = _BUILT_FOR.match(headers.get("user-agent", ""))
    return built is not None and int(built[1]) >= _NEWER
