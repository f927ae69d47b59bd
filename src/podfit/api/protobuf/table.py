"""The table of protobuf's field numbers (`fields.txt`), and the message type of each kind."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

MEDIA_TYPE = "application/vnd.kubernetes.protobuf"
MAGIC = b"k8s\x00"
"""The prefix of every body."""
_GROUPS = {
    "authentication.k8s.io/v1": "authentication",
    "authorization.k8s.io/v1": "authorization",
    "autoscaling/v1": "autoscaling.v1",
    "autoscaling/v2": "autoscaling.v2",
    "certificates.k8s.io/v1": "certificates",
    "coordination.k8s.io/v1": "coordination",
    "events.k8s.io/v1": "events",
    "node.k8s.io/v1": "node",
    "rbac.authorization.k8s.io/v1": "rbac",
    "scheduling.k8s.io/v1": "scheduling",
    "admissionregistration.k8s.io/v1": "admissionregistration",
    "apidiscovery.k8s.io/v2": "apidiscovery",
    "apidiscovery.k8s.io/v2beta1": "apidiscovery",
    "apiextensions.k8s.io/v1": "apiextensions",
    "apiregistration.k8s.io/v1": "apiregistration",
    "apps/v1": "apps",
    "batch/v1": "batch",
    "discovery.k8s.io/v1": "discovery",
    "flowcontrol.apiserver.k8s.io/v1": "flowcontrol",
    "meta.k8s.io/v1": "meta",
    "meta.k8s.io/v1beta1": "meta",
    "networking.k8s.io/v1": "networking",
    "policy/v1": "policy",
    "resource.k8s.io/v1": "resource",
    "storage.k8s.io/v1": "storage",
    "v1": "core",
}
_OF_EVERY_VERSION = frozenset(("DeleteOptions",))
_OF_V1 = frozenset(("APIGroup", "APIGroupList", "APIResourceList", "APIVersions", "Status"))
UNIONS: dict[str, tuple[str, Any]] = {
    "apiextensions.JSONSchemaPropsOrArray": ("jSONSchemas", []),
    "apiextensions.JSONSchemaPropsOrBool": ("allows", False),
    "apiextensions.JSONSchemaPropsOrStringArray": ("property", []),
}
"""Types that JSON represents as a schema or as something else: the field for the other case, and its value if absent.
"""

Fields = dict[int, tuple[str, str]]
"""By number: JSON name and type."""


@lru_cache(maxsize=1)
def message_types() -> dict[str, Fields]:
    found: dict[str, Fields] = {}
    fields: Fields = {}
    for line in Path(__file__).with_name("fields.txt").read_text().splitlines():
        if not line or line.startswith("#"):
            continue
        if line[0] != " ":
            fields = found[line] = {}
            continue
        number, name, kind = line.split()
        fields[int(number)] = (name, kind)
    return found


def root(api_version: str, kind: str) -> str:
    """The message type of a kind; "" if protobuf does not have it."""
    if kind in _OF_EVERY_VERSION or (api_version in ("", "v1") and kind in _OF_V1):
        return f"meta.{kind}"
    name = f"{_GROUPS.get(api_version, '')}.{kind}"
    return name if name in message_types() else ""
