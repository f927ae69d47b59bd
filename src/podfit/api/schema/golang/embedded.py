"""Structs that Go embeds in others. JSON does not show them, but Go's messages about their fields do."""

from __future__ import annotations

_RULE = ("apiGroups", "apiVersions", "resources", "scope")
_NAMED = (
    "ConfigMapEnvSource",
    "ConfigMapKeySelector",
    "ConfigMapProjection",
    "ConfigMapVolumeSource",
    "SecretEnvSource",
    "SecretKeySelector",
    "SecretProjection",
)
_BY_FIELD: dict[str, dict[str, str]] = {
    "IngressRule": {"http": "IngressRuleValue"},
    "RuleWithOperations": dict.fromkeys(_RULE, "Rule"),
    "NamedRuleWithOperations": {"operations": "RuleWithOperations", **dict.fromkeys(_RULE, "RuleWithOperations.Rule")},
    "Probe": dict.fromkeys(("exec", "httpGet", "tcpSocket", "grpc"), "ProbeHandler"),
    "DeviceClaimConfiguration": {"opaque": "DeviceConfiguration"},
    "DeviceAllocationConfiguration": {"opaque": "DeviceConfiguration"},
    "DeviceClassConfiguration": {"opaque": "DeviceConfiguration"},
    **{struct: {"name": "LocalObjectReference"} for struct in _NAMED},
}
VOLUME_FIELDS = (
    "capacity",
    "accessModes",
    "claimRef",
    "persistentVolumeReclaimPolicy",
    "storageClassName",
    "mountOptions",
    "volumeMode",
    "nodeAffinity",
    "volumeAttributesClassName",
)
"""The fields of a PersistentVolume other than its source."""
_BY_REST: dict[str, tuple[str, frozenset[str]]] = {
    "Volume": ("VolumeSource", frozenset({"name"})),
    "EphemeralContainer": ("EphemeralContainerCommon", frozenset({"targetContainerName"})),
    "PersistentVolumeSpec": ("PersistentVolumeSource", frozenset(VOLUME_FIELDS)),
}


def spelled(struct: str, key: str) -> str:
    """A field as named by Go's decoder: prefixed by the names of the embedded structs that contain it."""
    inside = _BY_FIELD.get(struct, {}).get(key, "")
    if not inside and struct in _BY_REST:
        name, own = _BY_REST[struct]
        inside = "" if key in own else name
    return f"{inside}.{key}" if inside else key
