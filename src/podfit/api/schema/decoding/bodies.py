"""The envelope of a request body: its apiVersion and kind, and Kubernetes' errors if they are wrong."""

from __future__ import annotations

from typing import Any, NamedTuple

from podfit.api.objects import Object
from podfit.api.registry.kinds import BUILT_IN, Kind
from podfit.api.schema.decoding.scalars import json_word
from podfit.api.schema.types import Struct
from podfit.api.status import ApiError, bad_request, invalid, unprocessable

_META = r'struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }'
_PACKAGE = {"": "core", "events.k8s.io": "core", "rbac.authorization.k8s.io": "rbac"}
_KNOWN = {(kind.api_version, kind.kind + end) for kind in BUILT_IN for end in ("", "List")} | {
    ("v1", "List"),
    ("v1", "Status"),
    ("policy/v1", "Eviction"),
    ("autoscaling/v1", "Scale"),
    ("authentication.k8s.io/v1", "TokenRequest"),
}
_WORKLOADS = ("DaemonSet", "Deployment", "ReplicaSet", "StatefulSet", "ControllerRevision")
_ROLES = ("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")
_WEBHOOKS = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
_POLICIES = tuple(f"{verb}AdmissionPolicy{end}" for verb in ("Mutating", "Validating") for end in ("", "Binding"))
_DEVICES = ("DeviceClass", "ResourceClaim", "ResourceClaimTemplate", "ResourceSlice")
_FLOWS = ("FlowSchema", "PriorityLevelConfiguration")
_REVIEWS = ("SelfSubjectRulesReview", "SelfSubjectAccessReview", "SubjectAccessReview", "LocalSubjectAccessReview")
_VOLUMES = ("VolumeAttachment", "CSIStorageCapacity", "VolumeAttributesClass")
_NOT_SERVED = {
    "extensions/v1beta1": ("DaemonSet", "Deployment", "ReplicaSet", "Ingress", "NetworkPolicy"),
    "apps/v1beta1": ("Deployment", "StatefulSet", "ControllerRevision"),
    "apps/v1beta2": _WORKLOADS,
    "batch/v1beta1": ("CronJob",),
    "policy/v1beta1": ("PodDisruptionBudget", "Eviction"),
    "coordination.k8s.io/v1beta1": ("Lease", "LeaseCandidate"),
    "scheduling.k8s.io/v1beta1": ("PriorityClass",),
    "rbac.authorization.k8s.io/v1beta1": _ROLES,
    "rbac.authorization.k8s.io/v1alpha1": _ROLES,
    "node.k8s.io/v1beta1": ("RuntimeClass",),
    "node.k8s.io/v1alpha1": ("RuntimeClass",),
    "events.k8s.io/v1beta1": ("Event",),
    "certificates.k8s.io/v1beta1": ("CertificateSigningRequest", "ClusterTrustBundle", "PodCertificateRequest"),
    "certificates.k8s.io/v1alpha1": ("ClusterTrustBundle",),
    "admissionregistration.k8s.io/v1beta1": (*_WEBHOOKS, *_POLICIES),
    "admissionregistration.k8s.io/v1alpha1": _POLICIES,
    "networking.k8s.io/v1beta1": ("Ingress", "IngressClass", "IPAddress", "ServiceCIDR"),
    "storage.k8s.io/v1beta1": ("StorageClass", "CSIDriver", "CSINode", *_VOLUMES),
    "storage.k8s.io/v1alpha1": _VOLUMES,
    "discovery.k8s.io/v1beta1": ("EndpointSlice",),
    "flowcontrol.apiserver.k8s.io/v1beta1": _FLOWS,
    "flowcontrol.apiserver.k8s.io/v1beta2": _FLOWS,
    "flowcontrol.apiserver.k8s.io/v1beta3": _FLOWS,
    "authentication.k8s.io/v1beta1": ("SelfSubjectReview", "TokenReview"),
    "authentication.k8s.io/v1alpha1": ("SelfSubjectReview",),
    "authorization.k8s.io/v1beta1": _REVIEWS,
    "resource.k8s.io/v1beta1": _DEVICES,
    "resource.k8s.io/v1beta2": (*_DEVICES, "DeviceTaintRule"),
}
"""Versions that Kubernetes 1.36 can decode but does not serve: objects are decoded, and rejected for their version."""


class TypeMeta(NamedTuple):
    api_version: str
    kind: str

    @property
    def version(self) -> str:
        return self.api_version.rpartition("/")[2]


def type_meta(value: Any, kind: Kind | Struct, raw: bytes) -> TypeMeta:
    """apiVersion and kind of a parsed body."""
    if value is None and isinstance(kind, Kind) and not kind.custom:
        return TypeMeta("", "")
    if not isinstance(value, dict):
        why = f"json: cannot unmarshal {json_word(value)} into Go value of type {_META}"
        raise body_error(kind, f"couldn't get version/kind; json parse error: {why}", raw)
    for name in value:
        if name in ("apiVersion", "kind") and not isinstance(value[name], str | None):
            where = f"Go struct field .{name} of type string"
            why = f"json: cannot unmarshal {json_word(value[name])} into {where}"
            raise body_error(kind, f"couldn't get version/kind; json parse error: {why}", raw)
    meta = TypeMeta(value.get("apiVersion") or "", value.get("kind") or "")
    if not meta.kind and isinstance(kind, Kind) and kind.custom:
        raise kind_missing(kind, raw)
    return meta


def checked_type(value: Any, kind: Kind, raw: bytes) -> TypeMeta:
    """apiVersion and kind of a parsed body. Rejects another kind or version; built-in kinds may omit both."""
    if value.__class__ is dict and value.get("kind") == kind.kind and value.get("apiVersion") == kind.api_version:
        return TypeMeta(kind.api_version, kind.kind)
    meta = type_meta(value, kind, raw)
    if kind.custom:
        _check_custom(meta, kind, value)
    else:
        _check_type(meta, kind)
    return meta


def _check_type(meta: TypeMeta, kind: Kind) -> None:
    said_kind, said_version = meta.kind or kind.kind, meta.api_version or kind.api_version
    if (said_version, said_kind) == (kind.api_version, kind.kind):
        return
    complaint = _undecodable(said_version, said_kind, kind)
    if complaint:
        version = said_version.rpartition("/")[2]
        raise bad_request(f'{said_kind} in version "{version}" cannot be handled as a {kind.kind}: {complaint}')
    raise _other_version(said_version, kind)


def _undecodable(version: str, said: str, kind: Kind) -> str:
    """The reason why an object of another declared kind cannot be converted to this kind; "" if it can."""
    if said not in _NOT_SERVED.get(version, ()) and (version, said) not in _KNOWN:
        scheme = "pkg/api/legacyscheme/scheme.go:30"
        return f'no kind "{said}" is registered for version "{version}" in scheme "{scheme}"'
    if said != kind.kind:
        package = _PACKAGE.get(kind.group, kind.group.partition(".")[0])
        return f"converting ({version.rpartition('/')[2]}.{said}) to ({package}.{kind.kind}): unknown conversion"
    return ""


def patched_type_refused(value: Object, kind: Kind) -> str:
    """The error for an object to which a patch gave another kind or version; "" if it can be decoded. Removed fields
    are replaced by those of the URL."""
    found = {}
    for name in ("apiVersion", "kind"):
        found[name] = value.get(name) or ""
        if not isinstance(found[name], str):
            why = f"cannot unmarshal {json_word(found[name])} into Go struct field .{name} of type string"
            return f"couldn't get version/kind; json parse error: json: {why}"
    said, version = found["kind"] or kind.kind, found["apiVersion"] or kind.api_version
    if not kind.custom:
        return "" if (version, said) == (kind.api_version, kind.kind) else _undecodable(version, said, kind)
    if version != kind.api_version and version.rpartition("/")[0] != kind.group:
        return f'{version}, Kind={said} is unstructured and is not suitable for converting to "{kind.api_version}"'
    return ""


def _check_custom(meta: TypeMeta, kind: Kind, value: Any) -> None:
    if meta.api_version != kind.api_version:
        raise _other_version(meta.api_version, kind)
    if meta.kind != kind.kind:
        given = value.get("metadata")
        name = given.get("name") if isinstance(given, dict) else ""
        complaint = invalid("kind", meta.kind, f"must be {kind.kind}")
        raise unprocessable(meta.kind, name if isinstance(name, str) else "", [complaint], kind.group)


def _other_version(said: str, kind: Kind) -> ApiError:
    return bad_request(
        f"the API version in the data ({said}) does not match the expected API version ({kind.api_version})"
    )


def body_error(kind: Kind | Struct, why: str, raw: bytes) -> ApiError:
    if isinstance(kind, Struct):
        return bad_request(why)
    return bad_request(f"the object provided is unrecognized (must be of type {kind.kind}): {why} ({_summary(raw)})")


def _summary(raw: bytes, most: int = 30) -> str:
    if not raw:
        return "<empty>"
    more = " ..." if len(raw) > most else ""
    return (raw[:most].decode("utf-8", "replace") if raw[:1] == b"{" else raw[:most].hex()) + more


def kind_missing(kind: Kind, raw: bytes) -> ApiError:
    """Custom resources must have a kind."""
    text = raw.decode("utf-8", "replace")
    return body_error(kind, f"Object 'Kind' is missing in '{text}'", raw)
