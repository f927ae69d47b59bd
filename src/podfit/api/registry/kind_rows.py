"""The built-in kinds of Kubernetes 1.36, one row per kind."""

from __future__ import annotations

from dataclasses import dataclass

from podfit.api.registry.kind import Kind, Subresource

_GPU = ("get", "patch", "update")
_REVIEW = ("create",)
_EXTENDS = ("api-extensions",)
_PROXIED = ("create", "delete", "get", "patch", "update")


def status_of(kind: str) -> Subresource:
    return Subresource("status", kind, _GPU)


_SCALE = Subresource("scale", "Scale", _GPU, "autoscaling", "v1")
_POD_SUBRESOURCES = (
    Subresource("attach", "PodAttachOptions", ("create", "get")),
    Subresource("binding", "Binding", ("create",)),
    Subresource("ephemeralcontainers", "Pod", _GPU),
    Subresource("eviction", "Eviction", ("create",), "policy", "v1"),
    Subresource("exec", "PodExecOptions", ("create", "get")),
    Subresource("log", "Pod", ("get",)),
    Subresource("migrate", "Binding", ("create",)),
    Subresource("portforward", "PodPortForwardOptions", ("create", "get")),
    Subresource("proxy", "PodProxyOptions", _PROXIED),
    Subresource("resize", "Pod", _GPU),
    status_of("Pod"),
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
_networking, _storage, _resource = _in("networking.k8s.io"), _in("storage.k8s.io"), _in("resource.k8s.io")
_flows = _in("flowcontrol.apiserver.k8s.io")

BUILT_IN: tuple[Kind, ...] = (
    _core("Binding", "bindings", True, verbs=_REVIEW),
    _core("ComponentStatus", "componentstatuses", False, "cs", verbs=("get", "list")),
    _core("ConfigMap", "configmaps", True, "cm"),
    _core("Endpoints", "endpoints", True, "ep"),
    _core("Event", "events", True, "ev"),
    _core("LimitRange", "limitranges", True, "limits"),
    _core(
        "Namespace",
        "namespaces",
        False,
        "ns",
        subs=(Subresource("finalize", "Namespace", ("update",)), status_of("Namespace")),
        verbs=("create", "delete", "get", "list", "patch", "update", "watch"),
    ),
    _core(
        "Node",
        "nodes",
        False,
        "no",
        subs=(
            Subresource("proxy", "NodeProxyOptions", _PROXIED),
            status_of("Node"),
        ),
    ),
    _core("PersistentVolume", "persistentvolumes", False, "pv", subs=(status_of("PersistentVolume"),)),
    _core("PersistentVolumeClaim", "persistentvolumeclaims", True, "pvc", subs=(status_of("PersistentVolumeClaim"),)),
    _core("Pod", "pods", True, "po", subs=_POD_SUBRESOURCES, categories=("all",)),
    _core("PodTemplate", "podtemplates", True),
    _core(
        "ReplicationController",
        "replicationcontrollers",
        True,
        "rc",
        categories=("all",),
        subs=(_SCALE, status_of("ReplicationController")),
    ),
    _core("ResourceQuota", "resourcequotas", True, "quota", subs=(status_of("ResourceQuota"),)),
    _core("Secret", "secrets", True),
    _core(
        "Service",
        "services",
        True,
        "svc",
        categories=("all",),
        subs=(Subresource("proxy", "ServiceProxyOptions", _PROXIED), status_of("Service")),
    ),
    _core(
        "ServiceAccount",
        "serviceaccounts",
        True,
        "sa",
        subs=(Subresource("token", "TokenRequest", ("create",), "authentication.k8s.io", "v1"),),
    ),
    _apps("ControllerRevision", "controllerrevisions", True),
    _apps("DaemonSet", "daemonsets", True, "ds", categories=("all",), subs=(status_of("DaemonSet"),)),
    _apps("Deployment", "deployments", True, "deploy", categories=("all",), subs=(_SCALE, status_of("Deployment"))),
    _apps("ReplicaSet", "replicasets", True, "rs", categories=("all",), subs=(_SCALE, status_of("ReplicaSet"))),
    _apps("StatefulSet", "statefulsets", True, "sts", categories=("all",), subs=(_SCALE, status_of("StatefulSet"))),
    _batch("CronJob", "cronjobs", True, "cj", categories=("all",), subs=(status_of("CronJob"),)),
    _batch("Job", "jobs", True, categories=("all",), subs=(status_of("Job"),)),
    _policy("PodDisruptionBudget", "poddisruptionbudgets", True, "pdb", subs=(status_of("PodDisruptionBudget"),)),
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
        subs=(status_of("HorizontalPodAutoscaler"),),
    ),
    _in("autoscaling", "v1")(
        "HorizontalPodAutoscaler",
        "horizontalpodautoscalers",
        True,
        "hpa",
        categories=("all",),
        subs=(status_of("HorizontalPodAutoscaler"),),
    ),
    _admission("MutatingAdmissionPolicy", "mutatingadmissionpolicies", False, categories=_EXTENDS),
    _admission("MutatingAdmissionPolicyBinding", "mutatingadmissionpolicybindings", False, categories=_EXTENDS),
    _admission(
        "ValidatingAdmissionPolicy",
        "validatingadmissionpolicies",
        False,
        categories=_EXTENDS,
        subs=(status_of("ValidatingAdmissionPolicy"),),
    ),
    _admission("ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings", False, categories=_EXTENDS),
    _admission("MutatingWebhookConfiguration", "mutatingwebhookconfigurations", False, categories=_EXTENDS),
    _admission("ValidatingWebhookConfiguration", "validatingwebhookconfigurations", False, categories=_EXTENDS),
    _extensions(
        "CustomResourceDefinition",
        "customresourcedefinitions",
        False,
        "crd",
        "crds",
        categories=_EXTENDS,
        subs=(status_of("CustomResourceDefinition"),),
    ),
    _in("events.k8s.io")("Event", "events", True, "ev", stored_as=("", "events")),
    _in("certificates.k8s.io")(
        "CertificateSigningRequest",
        "certificatesigningrequests",
        False,
        "csr",
        subs=(Subresource("approval", "CertificateSigningRequest", _GPU), status_of("CertificateSigningRequest")),
    ),
    _in("apiregistration.k8s.io")(
        "APIService", "apiservices", False, categories=_EXTENDS, subs=(status_of("APIService"),)
    ),
    _in("discovery.k8s.io")("EndpointSlice", "endpointslices", True),
    _networking("Ingress", "ingresses", True, "ing", subs=(status_of("Ingress"),)),
    _networking("IngressClass", "ingressclasses", False),
    _networking("IPAddress", "ipaddresses", False, "ip"),
    _networking("NetworkPolicy", "networkpolicies", True, "netpol"),
    _networking("ServiceCIDR", "servicecidrs", False, subs=(status_of("ServiceCIDR"),)),
    _storage("CSIDriver", "csidrivers", False),
    _storage("CSINode", "csinodes", False),
    _storage("CSIStorageCapacity", "csistoragecapacities", True),
    _storage("StorageClass", "storageclasses", False, "sc"),
    _storage("VolumeAttachment", "volumeattachments", False, subs=(status_of("VolumeAttachment"),)),
    _storage("VolumeAttributesClass", "volumeattributesclasses", False, "vac"),
    _resource("DeviceClass", "deviceclasses", False),
    _resource("ResourceClaim", "resourceclaims", True, subs=(status_of("ResourceClaim"),)),
    _resource("ResourceClaimTemplate", "resourceclaimtemplates", True),
    _resource("ResourceSlice", "resourceslices", False),
    _flows("FlowSchema", "flowschemas", False, subs=(status_of("FlowSchema"),)),
    _flows(
        "PriorityLevelConfiguration",
        "prioritylevelconfigurations",
        False,
        subs=(status_of("PriorityLevelConfiguration"),),
    ),
    _authn("TokenReview", "tokenreviews", False, verbs=_REVIEW),
    _authn("SelfSubjectReview", "selfsubjectreviews", False, verbs=_REVIEW),
    _authz("SubjectAccessReview", "subjectaccessreviews", False, verbs=_REVIEW),
    _authz("SelfSubjectAccessReview", "selfsubjectaccessreviews", False, verbs=_REVIEW),
    _authz("SelfSubjectRulesReview", "selfsubjectrulesreviews", False, verbs=_REVIEW),
    _authz("LocalSubjectAccessReview", "localsubjectaccessreviews", True, verbs=_REVIEW),
)
