"""Go's names of fields, and values under these names.

Kubernetes' internal types are structs without JSON tags. Errors that print such a struct therefore show every field of
it, set or not, under its Go name: `{"Attacher":"a.io","Source":{…},"NodeName":"m"}`.
"""

from __future__ import annotations

from typing import Any

from podfit.api.schema.types import ListOf, MapOf, Scalar, Struct, Type

_NAMES = {
    **{name: name.upper() for name in ("uid", "os", "tty", "ip", "nfs", "iscsi", "rbd", "fc", "csi", "iqn", "grpc")},
    **{name: name.upper() for name in ("cidr", "cel", "http", "tls")},
    "apiVersion": "APIVersion",
    "apiGroup": "APIGroup",
    "apiGroups": "APIGroups",
    "apiVersions": "APIVersions",
    "awsElasticBlockStore": "AWSElasticBlockStore",
    "cephfs": "CephFS",
    "cidrs": "CIDRs",
    "chapAuthDiscovery": "DiscoveryCHAPAuth",
    "chapAuthSession": "SessionCHAPAuth",
    "diskURI": "DataDiskURI",
    "dnsConfig": "DNSConfig",
    "dnsPolicy": "DNSPolicy",
    "fsGroup": "FSGroup",
    "fsGroupChangePolicy": "FSGroupChangePolicy",
    "fsGroupPolicy": "FSGroupPolicy",
    "fsType": "FSType",
    "gcePersistentDisk": "GCEPersistentDisk",
    "gmsaCredentialSpec": "GMSACredentialSpec",
    "gmsaCredentialSpecName": "GMSACredentialSpecName",
    "httpGet": "HTTPGet",
    "httpHeaders": "HTTPHeaders",
    "ipBlock": "IPBlock",
    "ips": "IPs",
    "iscsiInterface": "ISCSIInterface",
    "jsonPatch": "JSONPatch",
    "metadata": "ObjectMeta",
    "pdName": "PDName",
    "seLinuxChangePolicy": "SELinuxChangePolicy",
    "seLinuxMount": "SELinuxMount",
    "seLinuxOptions": "SELinuxOptions",
    "sslEnabled": "SSLEnabled",
    "storageos": "StorageOS",
    "tcpSocket": "TCPSocket",
    "wwids": "WWIDs",
}
"""Fields whose Go name is not their JSON name with an initial capital."""
_NAMES_OF = {
    "GlusterfsVolumeSource": {"endpoints": "EndpointsName"},
    "DeviceAttribute": {
        **{name: f"{name.capitalize()}Value" for name in ("int", "bool", "string", "version")},
        **{name: f"{name.capitalize()[:-1]}Values" for name in ("ints", "bools", "strings", "versions")},
    },
    "PodSpec": {"serviceAccount": "DeprecatedServiceAccount"},
    "RBDVolumeSource": {"monitors": "CephMonitors", "image": "RBDImage", "pool": "RBDPool", "user": "RadosUser"},
}
_TAGGED = frozenset(("meta",))
"""Tables whose Go structs have JSON tags everywhere: they print as ordinary JSON."""


def go_name(struct: Struct, field: str) -> str:
    own = _NAMES_OF.get(struct.name)
    return (own and own.get(field)) or _NAMES.get(field) or field[0].upper() + field[1:]


def as_go(value: Any, kind: Type) -> Any:
    """A JSON value as Go prints it in errors; for `invalid` and similar ones."""
    if isinstance(kind, Struct):
        return _struct(value or {}, kind)
    if isinstance(kind, ListOf):
        return None if value is None else [as_go(item, kind.item) for item in value]
    if isinstance(kind, MapOf):
        return None if value is None else {key: as_go(item, kind.value) for key, item in sorted(value.items())}
    return _zero(kind) if value is None else value


def _struct(value: dict[str, Any], struct: Struct) -> dict[str, Any]:
    if struct.table in _TAGGED:
        return value
    shown: dict[str, Any] = {}
    for row in struct:
        given = value.get(row.name)
        if row.name == "metadata":
            # Embedded in Go, so its fields are at the same level as the others.
            shown |= given or {}
        else:
            shown[go_name(struct, row.name)] = None if row.pointer and given is None else as_go(given, row.type)
    return shown


def _zero(kind: Scalar) -> Any:
    if kind.form == "bool":
        return False
    if kind.form == "string":
        return ""
    return "0" if kind.form in ("Quantity", "Resource") else None if kind.form in ("Time", "MicroTime", "bytes") else 0
