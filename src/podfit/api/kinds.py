"""The table of kinds: a new kind is one row. Custom resources become rows at run time (`Registry.add`).

Storage keys are `/registry/<group or "core">/<plural>/[<namespace>/]<name>`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from podfit.api.schema.types import Struct

ALL = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


@dataclass(frozen=True, slots=True)
class Subresource:
    name: str
    kind: str
    verbs: tuple[str, ...]
    group: str | None = None
    version: str | None = None
    """Group and version of the kind it speaks, where they differ from the parent's."""


@dataclass(frozen=True, slots=True)
class Kind:
    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool
    short: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    subresources: tuple[Subresource, ...] = ()
    verbs: tuple[str, ...] = ALL
    stored_as: tuple[str, str] | None = None
    """(group, plural) of the kind whose objects this one shows, for kinds served in several groups or versions."""
    custom: bool = False
    singular: str = ""
    struct: Struct | None = field(default=None, repr=False, compare=False)
    """The type of a custom resource, from its definition. Those of built-in kinds are in `podfit.api.schema`."""
    api_version: str = field(init=False, repr=False, compare=False)
    base_path: str = field(init=False, repr=False, compare=False)
    storage_prefix: str = field(init=False, repr=False, compare=False)
    """Below which its objects are kept in the store."""
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # Asked for several times in every request.
        group, plural = self.stored_as or (self.group, self.plural)
        object.__setattr__(self, "api_version", f"{self.group}/{self.version}" if self.group else self.version)
        base_path = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        object.__setattr__(self, "base_path", base_path)
        object.__setattr__(self, "storage_prefix", f"/registry/{group or 'core'}/{plural}/")
        object.__setattr__(self, "_hash", hash((self.group, self.version, self.plural)))

    def __hash__(self) -> int:
        # Kinds are looked up on every request; hashing all fields and subresources each time would cost more than
        # the lookup.
        return self._hash

    @property
    def list_kind(self) -> str:
        return self.kind + "List"

    def key(self, namespace: str, name: str) -> str:
        return f"{self.storage_prefix}{namespace}/{name}" if self.namespaced else f"{self.storage_prefix}{name}"

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """The URL path of a collection, an object or a subresource; no namespace means all of them."""
        where = f"{self.base_path}/namespaces/{namespace}" if self.namespaced and namespace else self.base_path
        path = f"{where}/{self.plural}/{name}" if name else f"{where}/{self.plural}"
        return f"{path}/{subresource}" if subresource else path

    def subresource(self, name: str) -> Subresource | None:
        for sub in self.subresources:
            if sub.name == name:
                return sub
        return None


_GPU = ("get", "patch", "update")
_REVIEW = ("create",)
_PROXIED = ("create", "delete", "get", "patch", "update")


def _status(kind: str) -> Subresource:
    return Subresource("status", kind, _GPU)


_SCALE = Subresource("scale", "Scale", _GPU, "autoscaling", "v1")
_POD_SUBRESOURCES = (
    Subresource("attach", "PodAttachOptions", ("create", "get")),
    Subresource("binding", "Binding", ("create",)),
    Subresource("ephemeralcontainers", "Pod", _GPU),
    Subresource("eviction", "Eviction", ("create",), "policy", "v1"),
    Subresource("exec", "PodExecOptions", ("create", "get")),
    Subresource("log", "Pod", ("get",)),
    Subresource("portforward", "PodPortForwardOptions", ("create", "get")),
    Subresource("proxy", "PodProxyOptions", _PROXIED),
    Subresource("resize", "Pod", _GPU),
    _status("Pod"),
)


def _core(
    kind: str, plural: str, namespaced: bool, *short: str, subs: tuple[Subresource, ...] = (), **more: object
) -> Kind:
    return Kind("", "v1", kind, plural, namespaced, short, subresources=subs, **more)  # type: ignore[arg-type]


def _in(group: str, version: str = "v1") -> _Maker:
    return _Maker(group, version)


@dataclass(frozen=True)
class _Maker:
    group: str
    version: str

    def __call__(
        self, kind: str, plural: str, namespaced: bool, *short: str, subs: tuple[Subresource, ...] = (), **more: object
    ) -> Kind:
        return Kind(self.group, self.version, kind, plural, namespaced, short, subresources=subs, **more)  # type: ignore[arg-type]


_apps, _batch, _policy = _in("apps"), _in("batch"), _in("policy")
_rbac, _authn, _authz = _in("rbac.authorization.k8s.io"), _in("authentication.k8s.io"), _in("authorization.k8s.io")
_admission, _extensions = _in("admissionregistration.k8s.io"), _in("apiextensions.k8s.io")

BUILT_IN: tuple[Kind, ...] = (
    _core("Binding", "bindings", True, verbs=_REVIEW),
    _core("ConfigMap", "configmaps", True, "cm"),
    _core("Endpoints", "endpoints", True, "ep"),
    _core("Event", "events", True, "ev"),
    _core("LimitRange", "limitranges", True, "limits"),
    _core(
        "Namespace",
        "namespaces",
        False,
        "ns",
        subs=(Subresource("finalize", "Namespace", ("update",)), _status("Namespace")),
        verbs=("create", "delete", "get", "list", "patch", "update", "watch"),
    ),
    _core(
        "Node",
        "nodes",
        False,
        "no",
        subs=(
            Subresource("proxy", "NodeProxyOptions", _PROXIED),
            _status("Node"),
        ),
    ),
    _core("PersistentVolume", "persistentvolumes", False, "pv", subs=(_status("PersistentVolume"),)),
    _core("PersistentVolumeClaim", "persistentvolumeclaims", True, "pvc", subs=(_status("PersistentVolumeClaim"),)),
    _core("Pod", "pods", True, "po", subs=_POD_SUBRESOURCES, categories=("all",)),
    _core("PodTemplate", "podtemplates", True),
    _core(
        "ReplicationController",
        "replicationcontrollers",
        True,
        "rc",
        categories=("all",),
        subs=(_SCALE, _status("ReplicationController")),
    ),
    _core("ResourceQuota", "resourcequotas", True, "quota", subs=(_status("ResourceQuota"),)),
    _core("Secret", "secrets", True),
    _core(
        "Service",
        "services",
        True,
        "svc",
        categories=("all",),
        subs=(Subresource("proxy", "ServiceProxyOptions", _PROXIED), _status("Service")),
    ),
    _core(
        "ServiceAccount",
        "serviceaccounts",
        True,
        "sa",
        subs=(Subresource("token", "TokenRequest", ("create",), "authentication.k8s.io", "v1"),),
    ),
    _apps("ControllerRevision", "controllerrevisions", True),
    _apps("DaemonSet", "daemonsets", True, "ds", categories=("all",), subs=(_status("DaemonSet"),)),
    _apps("Deployment", "deployments", True, "deploy", categories=("all",), subs=(_SCALE, _status("Deployment"))),
    _apps("ReplicaSet", "replicasets", True, "rs", categories=("all",), subs=(_SCALE, _status("ReplicaSet"))),
    _apps("StatefulSet", "statefulsets", True, "sts", categories=("all",), subs=(_SCALE, _status("StatefulSet"))),
    _batch("CronJob", "cronjobs", True, "cj", categories=("all",), subs=(_status("CronJob"),)),
    _batch("Job", "jobs", True, categories=("all",), subs=(_status("Job"),)),
    _policy("PodDisruptionBudget", "poddisruptionbudgets", True, "pdb", subs=(_status("PodDisruptionBudget"),)),
    _in("scheduling.k8s.io")("PriorityClass", "priorityclasses", False, "pc"),
    _in("coordination.k8s.io")("Lease", "leases", True),
    _rbac("ClusterRole", "clusterroles", False),
    _rbac("ClusterRoleBinding", "clusterrolebindings", False),
    _rbac("Role", "roles", True),
    _rbac("RoleBinding", "rolebindings", True),
    _in("node.k8s.io")("RuntimeClass", "runtimeclasses", False),
    _in("autoscaling", "v2")(
        "HorizontalPodAutoscaler",
        "horizontalpodautoscalers",
        True,
        "hpa",
        categories=("all",),
        subs=(_status("HorizontalPodAutoscaler"),),
    ),
    _in("autoscaling", "v1")(
        "HorizontalPodAutoscaler",
        "horizontalpodautoscalers",
        True,
        "hpa",
        categories=("all",),
        subs=(_status("HorizontalPodAutoscaler"),),
    ),
    _admission("MutatingWebhookConfiguration", "mutatingwebhookconfigurations", False),
    _admission("ValidatingWebhookConfiguration", "validatingwebhookconfigurations", False),
    _extensions(
        "CustomResourceDefinition",
        "customresourcedefinitions",
        False,
        "crd",
        "crds",
        categories=("api-extensions",),
        subs=(_status("CustomResourceDefinition"),),
    ),
    _in("events.k8s.io")("Event", "events", True, "ev", stored_as=("", "events")),
    _in("certificates.k8s.io")(
        "CertificateSigningRequest",
        "certificatesigningrequests",
        False,
        "csr",
        subs=(Subresource("approval", "CertificateSigningRequest", _GPU), _status("CertificateSigningRequest")),
    ),
    _in("apiregistration.k8s.io")(
        "APIService", "apiservices", False, categories=("api-extensions",), subs=(_status("APIService"),)
    ),
    _authn("TokenReview", "tokenreviews", False, verbs=_REVIEW),
    _authn("SelfSubjectReview", "selfsubjectreviews", False, verbs=_REVIEW),
    _authz("SubjectAccessReview", "subjectaccessreviews", False, verbs=_REVIEW),
    _authz("SelfSubjectAccessReview", "selfsubjectaccessreviews", False, verbs=_REVIEW),
    _authz("SelfSubjectRulesReview", "selfsubjectrulesreviews", False, verbs=_REVIEW),
    _authz("LocalSubjectAccessReview", "localsubjectaccessreviews", True, verbs=_REVIEW),
)


class Registry:
    """All kinds a server knows now: the built-in rows and those that CustomResourceDefinitions add."""

    def __init__(self, kinds: tuple[Kind, ...] = BUILT_IN) -> None:
        self._by_resource: dict[tuple[str, str, str], Kind] = {}
        self._by_kind: dict[tuple[str, str], Kind] = {}
        self._by_storage: dict[str, tuple[Kind, ...]] = {}
        for kind in kinds:
            self.add(kind)

    def add(self, kind: Kind) -> None:
        self._by_resource[kind.group, kind.version, kind.plural] = kind
        self._by_kind[kind.api_version, kind.kind] = kind
        others = [one for one in self._by_storage.get(kind.storage_prefix, ()) if one.api_version != kind.api_version]
        self._by_storage[kind.storage_prefix] = (*others, kind)

    def remove(self, kind: Kind) -> None:
        self._by_resource.pop((kind.group, kind.version, kind.plural), None)
        self._by_kind.pop((kind.api_version, kind.kind), None)
        left = [one for one in self._by_storage.get(kind.storage_prefix, ()) if one.api_version != kind.api_version]
        self._by_storage[kind.storage_prefix] = tuple(left)

    def resource(self, group: str, version: str, plural: str) -> Kind | None:
        return self._by_resource.get((group, version, plural))

    def alike(self, kind: Kind) -> tuple[Kind, ...]:
        """The other kinds that show the same stored objects: other versions, other groups."""
        return tuple(one for one in self._by_storage.get(kind.storage_prefix, ()) if one != kind)

    def of(self, api_version: str, kind: str) -> Kind | None:
        return self._by_kind.get((api_version, kind))

    def __iter__(self) -> Iterator[Kind]:
        return iter(list(self._by_resource.values()))


_BUILT_IN_REGISTRY = Registry()


def kind_named(kind: str, group: str | None = None) -> Kind:
    """A built-in kind by its name: `kind_named("Pod")`; the first row wins where several groups have it."""
    for row in _BUILT_IN_REGISTRY:
        if row.kind == kind and (group is None or row.group == group):
            return row
    raise KeyError(f"no built-in kind {kind}")


POD, NODE, NAMESPACE, EVENT, LEASE = (kind_named(name) for name in ("Pod", "Node", "Namespace", "Event", "Lease"))
VPA = Kind(
    "autoscaling.k8s.io",
    "v1",
    "VerticalPodAutoscaler",
    "verticalpodautoscalers",
    True,
    ("vpa",),
    subresources=(_status("VerticalPodAutoscaler"),),
    custom=True,
    singular="verticalpodautoscaler",
)
VPA_CHECKPOINT = Kind(
    "autoscaling.k8s.io",
    "v1",
    "VerticalPodAutoscalerCheckpoint",
    "verticalpodautoscalercheckpoints",
    True,
    ("vpacheckpoint",),
    custom=True,
    singular="verticalpodautoscalercheckpoint",
)
POD_METRICS = Kind("metrics.k8s.io", "v1beta1", "PodMetrics", "pods", True, verbs=("get", "list"))
NODE_METRICS = Kind("metrics.k8s.io", "v1beta1", "NodeMetrics", "nodes", False, verbs=("get", "list"))
