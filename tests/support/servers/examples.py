"""A valid object of every kind that the server serves, with many fields set: tests send it, modified or invalidated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from podfit.api.objects import Object

_CONTAINER: Object = {
    "name": "c",
    "image": "example.com/image:1",
    "command": ["run"],
    "args": ["--fast"],
    "ports": [{"name": "web", "containerPort": 80, "protocol": "TCP"}],
    "env": [
        {"name": "A", "value": "b"},
        {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
        {"name": "S", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k", "optional": True}}},
        {"name": "C", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": "1m"}}},
    ],
    "envFrom": [{"prefix": "P_", "configMapRef": {"name": "m"}}],
    "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"cpu": "200m", "memory": "128Mi"}},
    "resizePolicy": [{"resourceName": "cpu", "restartPolicy": "NotRequired"}],
    "livenessProbe": {"httpGet": {"path": "/", "port": "web", "httpHeaders": [{"name": "X", "value": "y"}]}},
    "readinessProbe": {"exec": {"command": ["true"]}, "periodSeconds": 5},
    "lifecycle": {"preStop": {"sleep": {"seconds": 1}}},
    "volumeMounts": [{"name": "v", "mountPath": "/v", "readOnly": True}],
    "securityContext": {"runAsUser": 1000, "capabilities": {"add": ["NET_ADMIN"], "drop": ["ALL"]}},
}
_POD_SPEC: Object = {
    "containers": [_CONTAINER],
    "initContainers": [{"name": "i", "image": "x", "restartPolicy": "Always"}],
    "volumes": [
        {"name": "v", "emptyDir": {"sizeLimit": "1Gi"}},
        {"name": "p", "projected": {"sources": [{"configMap": {"name": "m", "items": [{"key": "a", "path": "b"}]}}]}},
        {"name": "e", "ephemeral": {"volumeClaimTemplate": {"spec": {
            "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}}},
    ],
    "nodeSelector": {"disk": "fast"},
    "tolerations": [{"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}],
    "affinity": {
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}]}},
        "podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": {
            "topologyKey": "zone", "labelSelector": {"matchLabels": {"a": "b"}}}}]},
    },
    "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
                                   "labelSelector": {"matchExpressions": [{"key": "a", "operator": "Exists"}]}}],
    "securityContext": {"fsGroup": 1, "sysctls": [{"name": "kernel.shm_rmid_forced", "value": "1"}]},
    "hostAliases": [{"ip": "10.0.0.1", "hostnames": ["a"]}],
    "dnsConfig": {"nameservers": ["10.0.0.1"], "options": [{"name": "ndots", "value": "2"}]},
    "schedulingGates": [{"name": "example.com/wait"}],
    "readinessGates": [{"conditionType": "example.com/ready"}],
    "overhead": None,
    "terminationGracePeriodSeconds": 5,
    "automountServiceAccountToken": False,
}  # fmt: skip
_LABELS = {"app": "x"}
_TEMPLATE: Object = {
    "metadata": {"labels": _LABELS, "annotations": {"a": "b"}},
    "spec": {key: value for key, value in _POD_SPEC.items() if key != "schedulingGates"},
}
_SELECTED: Object = {"selector": {"matchLabels": _LABELS}, "template": _TEMPLATE}
_JOB_TEMPLATE: Object = {**_TEMPLATE, "spec": {**_TEMPLATE["spec"], "restartPolicy": "Never"}}
_RULE: Object = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"], "resourceNames": ["a"]}
_WEBHOOK: Object = {
    "name": "a.example.com",
    "clientConfig": {"url": "https://127.0.0.1:1/x"},
    "rules": [{"operations": ["CREATE"], "apiGroups": ["*"], "apiVersions": ["v1"], "resources": ["pods"]}],
    "sideEffects": "None",
    "admissionReviewVersions": ["v1"],
    "namespaceSelector": {"matchLabels": {"a": "b"}},
}
_SCHEMA: Object = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "properties": {
                "size": {"type": "integer", "minimum": 0, "default": 1},
                "words": {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}},
                "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                "either": {"x-kubernetes-int-or-string": True},
            },
            "x-kubernetes-validations": [{"rule": "self.size < 10", "message": "too large"}],
        }
    },
}
_REQUEST = (
    "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0KTUlIR01HNENBUUF3RERFS01BZ0dBMVVFQXd3QmRUQlpNQk1HQnlx"
    "R1NNNDlBZ0VHQ0NxR1NNNDlBd0VIQTBJQQpCQW9SbmNTVGpMYllVTTQ5d0tseUZFUlFsTklTTERPZldNdUFKOUc1MGVhZnJzZHZD"
    "OXVTd09TdTRzTHpPZVVnCkE3UkJzeGp4TlpDTXNMRFliWmtzYWlxZ0FEQUtCZ2dxaGtqT1BRUURBZ05JQURCRkFpQVRNdEhxNkNF"
    "bmpENHIKQ3o0REh2aUlrMFJnYURyZDJrdys1cmdQOWtXSjVBSWhBTUN5QWpIQUoyRXBEOGlRWWppZ1hxeDlmcVM3TG9rcwpxY1FZ"
    "N1IvN0pRdksKLS0tLS1FTkQgQ0VSVElGSUNBVEUgUkVRVUVTVC0tLS0tCg=="
)
"""A certificate signing request for the user `u`."""
_SCALED = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}


@dataclass(frozen=True, slots=True)
class Example:
    path: str
    """The path of the collection."""
    body: Object
    harmless: bool = True
    """False: storing it would change how the server treats other requests."""

    @property
    def name(self) -> str:
        return str((self.body.get("metadata") or {}).get("name", ""))


def _make(path: str, kind: str, harmless: bool = True, name: str = "x", **parts: Any) -> Example:
    steps = path.split("/")
    version = steps[2] if steps[1] == "api" else f"{steps[2]}/{steps[3]}"
    # Access reviews are queries, and have no metadata.
    questions = path.startswith("/apis/authorization.k8s.io/")
    meta: Object = {} if questions else {"name": name, "labels": {"app": "x"}, "annotations": {"a": "b"}}
    return Example(path, {"apiVersion": version, "kind": kind, "metadata": meta, **parts}, harmless)


_CORE, _NAMED = "/api/v1", "/api/v1/namespaces/default"
_APPS, _BATCH = "/apis/apps/v1/namespaces/default", "/apis/batch/v1/namespaces/default"
_RBAC, _SCALING = "/apis/rbac.authorization.k8s.io/v1", "/apis/autoscaling"
_DEFAULT = "namespaces/default"

EXAMPLES: tuple[Example, ...] = (
    _make(f"{_NAMED}/pods", "Pod", spec=_POD_SPEC),
    _make(f"{_NAMED}/configmaps", "ConfigMap", data={"a": "b"}, binaryData={"c": "AAEC"}),
    _make(f"{_NAMED}/secrets", "Secret", type="Opaque", data={"a": "AAEC"}, stringData={"b": "c"}),
    _make(
        f"{_NAMED}/services",
        "Service",
        spec={"selector": _LABELS, "ports": [{"name": "a", "port": 80, "targetPort": "web"}], "type": "NodePort"},
    ),
    _make(
        f"{_NAMED}/endpoints",
        "Endpoints",
        subsets=[{"addresses": [{"ip": "10.0.0.1"}], "ports": [{"name": "a", "port": 80}]}],
    ),
    _make(
        f"{_NAMED}/limitranges",
        "LimitRange",
        False,
        spec={"limits": [{"type": "Container", "max": {"cpu": "2"}, "default": {"cpu": "1"}}]},
    ),
    _make(
        f"{_NAMED}/resourcequotas",
        "ResourceQuota",
        False,
        spec={
            "hard": {"pods": "5", "requests.cpu": "1"},
            "scopeSelector": {
                "matchExpressions": [{"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}]
            },
        },
    ),
    _make(f"{_NAMED}/serviceaccounts", "ServiceAccount", secrets=[{"name": "s"}], imagePullSecrets=[{"name": "p"}]),
    _make(
        f"{_NAMED}/persistentvolumeclaims",
        "PersistentVolumeClaim",
        spec={"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    ),
    _make(
        f"{_CORE}/persistentvolumes",
        "PersistentVolume",
        spec={"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/x"}},
    ),
    _make(
        f"{_NAMED}/events",
        "Event",
        involvedObject={"kind": "Pod", "namespace": "default", "name": "x"},
        reason="Tested",
        type="Normal",
        firstTimestamp="2026-01-01T00:00:00Z",
        count=1,
    ),
    _make(f"{_NAMED}/podtemplates", "PodTemplate", template=_TEMPLATE),
    _make(
        f"{_NAMED}/replicationcontrollers", "ReplicationController", spec={"selector": _LABELS, "template": _TEMPLATE}
    ),
    _make(f"{_CORE}/namespaces", "Namespace", spec={"finalizers": ["kubernetes"]}),
    _make(
        f"{_CORE}/nodes",
        "Node",
        spec={"taints": [{"key": "a", "effect": "NoSchedule"}], "podCIDR": "10.1.0.0/24"},
        status={"capacity": {"cpu": "4", "memory": "8Gi"}, "addresses": [{"type": "InternalIP", "address": "::1"}]},
    ),
    _make(f"{_APPS}/deployments", "Deployment", spec={**_SELECTED, "replicas": 2, "strategy": {"type": "Recreate"}}),
    _make(f"{_APPS}/replicasets", "ReplicaSet", spec={**_SELECTED, "replicas": 1}),
    _make(f"{_APPS}/daemonsets", "DaemonSet", spec={**_SELECTED, "updateStrategy": {"type": "OnDelete"}}),
    _make(
        f"{_APPS}/statefulsets",
        "StatefulSet",
        spec={
            **_SELECTED,
            "serviceName": "s",
            "volumeClaimTemplates": [
                {
                    "metadata": {"name": "d"},
                    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
                }
            ],
        },
    ),
    _make(f"{_APPS}/controllerrevisions", "ControllerRevision", data={"spec": {"a": 1}}, revision=1),
    _make(
        f"{_BATCH}/jobs",
        "Job",
        spec={
            "template": _JOB_TEMPLATE,
            "backoffLimit": 2,
            "podFailurePolicy": {
                "rules": [{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [1], "containerName": "c"}}]
            },
        },
    ),
    _make(
        f"{_BATCH}/cronjobs",
        "CronJob",
        spec={"schedule": "*/5 * * * *", "timeZone": "UTC", "jobTemplate": {"spec": {"template": _JOB_TEMPLATE}}},
    ),
    _make(
        f"/apis/policy/v1/{_DEFAULT}/poddisruptionbudgets",
        "PodDisruptionBudget",
        False,
        spec={"minAvailable": "50%", "selector": {"matchLabels": _LABELS}},
    ),
    _make("/apis/scheduling.k8s.io/v1/priorityclasses", "PriorityClass", value=5, description="x"),
    _make(
        f"/apis/coordination.k8s.io/v1/{_DEFAULT}/leases",
        "Lease",
        spec={"holderIdentity": "a", "leaseDurationSeconds": 15, "renewTime": "2026-01-01T00:00:00.000000Z"},
    ),
    _make(f"{_RBAC}/clusterroles", "ClusterRole", rules=[_RULE]),
    _make(
        f"{_RBAC}/clusterrolebindings",
        "ClusterRoleBinding",
        roleRef={"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
        subjects=[{"kind": "User", "name": "u", "apiGroup": "rbac.authorization.k8s.io"}],
    ),
    _make(f"{_RBAC}/{_DEFAULT}/roles", "Role", rules=[_RULE]),
    _make(
        f"{_RBAC}/{_DEFAULT}/rolebindings",
        "RoleBinding",
        roleRef={"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"},
        subjects=[{"kind": "ServiceAccount", "name": "a", "namespace": "default"}],
    ),
    _make(
        "/apis/node.k8s.io/v1/runtimeclasses",
        "RuntimeClass",
        handler="runc",
        overhead={"podFixed": {"cpu": "10m"}},
        scheduling={"nodeSelector": {"a": "b"}},
    ),
    _make(
        f"{_SCALING}/v2/{_DEFAULT}/horizontalpodautoscalers",
        "HorizontalPodAutoscaler",
        spec={
            "scaleTargetRef": _SCALED,
            "maxReplicas": 3,
            "metrics": [
                {
                    "type": "Resource",
                    "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}},
                }
            ],
        },
    ),
    _make(
        f"{_SCALING}/v1/{_DEFAULT}/horizontalpodautoscalers",
        "HorizontalPodAutoscaler",
        name="y",
        spec={"scaleTargetRef": _SCALED, "maxReplicas": 3, "targetCPUUtilizationPercentage": 50},
    ),
    _make(
        f"{_SCALING}.k8s.io/v1/{_DEFAULT}/verticalpodautoscalers",
        "VerticalPodAutoscaler",
        spec={
            "targetRef": _SCALED,
            "updatePolicy": {"updateMode": "Off"},
            "resourcePolicy": {"containerPolicies": [{"containerName": "*", "minAllowed": {"cpu": "10m"}}]},
        },
    ),
    _make(
        "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations",
        "MutatingWebhookConfiguration",
        False,
        webhooks=[_WEBHOOK],
    ),
    _make(
        "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
        "ValidatingWebhookConfiguration",
        False,
        webhooks=[_WEBHOOK],
    ),
    _make(
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        "CustomResourceDefinition",
        False,
        name="things.example.com",
        spec={
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "things", "kind": "Thing", "shortNames": ["th"]},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": _SCHEMA},
                    "subresources": {
                        "status": {},
                        "scale": {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"},
                    },
                    "additionalPrinterColumns": [{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}],
                }
            ],
        },
    ),
    _make(
        f"/apis/example.com/v1/{_DEFAULT}/things",
        "Thing",
        spec={"size": 2, "words": ["a"], "free": {"x": [1, {"y": None}]}, "either": "5%"},
    ),
    _make(
        f"/apis/events.k8s.io/v1/{_DEFAULT}/events",
        "Event",
        name="y",
        regarding={"kind": "Pod", "namespace": "default", "name": "x"},
        eventTime="2026-01-01T00:00:00.000000Z",
        reportingController="example.com/c",
        reportingInstance="i",
        action="Test",
        reason="Tested",
        type="Normal",
    ),
    _make(
        "/apis/apiregistration.k8s.io/v1/apiservices",
        "APIService",
        False,
        name="v1.other.example.com",
        spec={
            "group": "other.example.com",
            "version": "v1",
            "groupPriorityMinimum": 100,
            "versionPriority": 10,
            "insecureSkipTLSVerify": True,
            "service": {"namespace": "default", "name": "x"},
        },
    ),
    _make(
        "/apis/certificates.k8s.io/v1/certificatesigningrequests",
        "CertificateSigningRequest",
        spec={"request": _REQUEST, "signerName": "kubernetes.io/kube-apiserver-client", "usages": ["client auth"]},
    ),
    _make("/apis/authentication.k8s.io/v1/tokenreviews", "TokenReview", spec={"token": "t", "audiences": ["a"]}),
    _make(
        "/apis/authorization.k8s.io/v1/subjectaccessreviews",
        "SubjectAccessReview",
        spec={"user": "u", "groups": ["g"], "resourceAttributes": {"verb": "get", "resource": "pods"}},
    ),
    _make(
        "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
        "SelfSubjectAccessReview",
        spec={"nonResourceAttributes": {"verb": "get", "path": "/x"}},
    ),
    _make(
        "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews",
        "SelfSubjectRulesReview",
        spec={"namespace": "default"},
    ),
    _make(
        f"/apis/authorization.k8s.io/v1/{_DEFAULT}/localsubjectaccessreviews",
        "LocalSubjectAccessReview",
        spec={"user": "u", "resourceAttributes": {"verb": "get", "resource": "pods", "namespace": "default"}},
    ),
)
