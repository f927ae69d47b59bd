"""Permissions of podfit's components beyond those of Kubernetes' scheduler and controllers. Data only.

The autoscaler's accounts and permissions are those of `deploy/vpa`, so that it runs the same inside and outside `podfit
up`.
"""

from __future__ import annotations

from podfit.apiserver.auth.roles.rules import Rule, rule

_READ = ("get", "list", "watch")
_WEBHOOKS = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")
_RECOMMENDER, _UPDATER, _ADMISSION = "vpa-recommender", "vpa-updater", "vpa-admission-controller"
_PREFIX = "system:podfit:"
_CREATE_LEASES = rule(["create"], ["coordination.k8s.io"], ["leases"])


def _lease(verb: str, *names: str) -> Rule:
    return rule(["get", verb], ["coordination.k8s.io"], ["leases"], names)


_AUTOSCALERS = "verticalpodautoscalers.autoscaling.k8s.io"

CLUSTER_ROLES: dict[str, tuple[Rule, ...]] = {
    # A deferred resize may preempt, within disruption budgets.
    f"{_PREFIX}scheduler": (rule(["create"], [""], ["pods/eviction"]),),
    # Resizes the pods of workloads in place instead of recreating them.
    f"{_PREFIX}inplace-resize-controller": (rule(["patch"], [""], ["pods", "pods/resize"]),),
    f"{_PREFIX}meter": (
        rule(_READ, [""], ["namespaces", "nodes", "pods"]),
        rule(["get"], [""], ["nodes/metrics", "nodes/proxy", "nodes/stats"]),
        rule(["create"], ["authentication.k8s.io"], ["tokenreviews"]),
        rule(["create"], ["authorization.k8s.io"], ["subjectaccessreviews"]),
        # A meter that runs as a separate process registers its APIService itself.
        rule(["create"], ["apiregistration.k8s.io"], ["apiservices"]),
        rule(["get", "patch"], ["apiregistration.k8s.io"], ["apiservices"], ["v1beta1.metrics.k8s.io"]),
        rule(["get"], ["rbac.authorization.k8s.io"], ["clusterroles"], ["system:aggregated-metrics-reader"]),
    ),
    f"{_PREFIX}vpa-reader": (
        rule(_READ, ["autoscaling.k8s.io"], ["verticalpodautoscalers"]),
        rule(_READ, [""], ["limitranges", "pods", "replicationcontrollers"]),
        rule(_READ, ["apps"], ["daemonsets", "deployments", "replicasets", "statefulsets"]),
        rule(_READ, ["batch"], ["cronjobs", "jobs"]),
        rule(_READ, ["autoscaling"], ["horizontalpodautoscalers"]),
        rule(["get", "watch"], ["*"], ["*/scale"]),
        rule(["create"], ["recommendation.podfit.dev"], ["recommendationqueries"]),
    ),
    f"{_PREFIX}{_RECOMMENDER}": (
        rule(["get", "list"], ["metrics.k8s.io"], ["pods"]),
        rule(["get", "patch"], ["autoscaling.k8s.io"], ["verticalpodautoscalers/status"]),
        rule([*_READ, "create", "patch", "delete"], ["autoscaling.k8s.io"], ["verticalpodautoscalercheckpoints"]),
        rule([*_READ, "create", "patch"], [""], ["events"]),
    ),
    f"{_PREFIX}{_UPDATER}": (
        rule(_READ, [""], ["namespaces", "nodes", "resourcequotas"]),
        rule(["patch"], [""], ["pods", "pods/resize"]),
        rule(["create"], [""], ["pods/eviction"]),
        rule(["create", "patch"], [""], ["events"]),
        # A resize that restarts containers respects disruption budgets.
        rule(_READ, ["policy"], ["poddisruptionbudgets"]),
        # To write the condition that a target exceeds every node.
        rule(["get", "patch"], ["autoscaling.k8s.io"], ["verticalpodautoscalers/status"]),
        # To check that the registered webhook responds.
        rule(["get"], ["admissionregistration.k8s.io"], _WEBHOOKS[:1], ["vpa-webhook-config"]),
        # To detect that a resize was too small.
        rule(["get", "list"], ["metrics.k8s.io"], ["pods"]),
    ),
    f"{_PREFIX}{_ADMISSION}": (
        # To read the freezes of namespaces, and the free resources of nodes and quotas.
        rule(_READ, [""], ["namespaces", "nodes", "resourcequotas"]),
        rule(["create"], ["admissionregistration.k8s.io"], _WEBHOOKS),
        rule(["get", "update"], ["admissionregistration.k8s.io"], _WEBHOOKS, ["vpa-webhook-config"]),
        rule(["get", "patch"], ["apiextensions.k8s.io"], ["customresourcedefinitions"], [_AUTOSCALERS]),
    ),
}
ROLES: dict[str, tuple[Rule, ...]] = {
    f"{_PREFIX}meter": (
        rule(["create"], [""], ["endpoints", "services"]),
        rule(["patch"], [""], ["endpoints", "services"], ["podfit-meter"]),
        rule(["create"], ["discovery.k8s.io"], ["endpointslices"]),
        rule(["patch"], ["discovery.k8s.io"], ["endpointslices"], ["podfit-meter-ipv4", "podfit-meter-ipv6"]),
        rule(["get"], [""], ["configmaps"], ["extension-apiserver-authentication"]),
    ),
    f"{_PREFIX}{_RECOMMENDER}": (_CREATE_LEASES, _lease("update", "vpa-recommender-lease")),
    f"{_PREFIX}{_UPDATER}": (
        _CREATE_LEASES,
        _lease("update", "vpa-updater", "vpa-admission-controller"),
        # The ConfigMap that suspends all changes by the autoscaler.
        rule(_READ, [""], ["configmaps"], ["podfit-panic"]),
    ),
    f"{_PREFIX}{_ADMISSION}": (
        _CREATE_LEASES,
        _lease("patch", "vpa-admission-controller"),
        rule(["create"], [""], ["secrets"]),
        rule(["get", "update"], [""], ["secrets"], ["vpa-tls-certs"]),
        rule(_READ, [""], ["configmaps"], ["podfit-panic"]),
    ),
}
"""Namespaced roles, all of them in kube-system."""

SUBJECTS: dict[str, tuple[tuple[str, str], ...]] = {
    f"{_PREFIX}scheduler": (("User", "system:kube-scheduler"),),
    f"{_PREFIX}inplace-resize-controller": (("ServiceAccount", "inplace-resize-controller"),),
    f"{_PREFIX}meter": (("ServiceAccount", "podfit-meter"),),
    f"{_PREFIX}vpa-reader": tuple(("ServiceAccount", name) for name in (_RECOMMENDER, _UPDATER, _ADMISSION)),
    **{f"{_PREFIX}{name}": (("ServiceAccount", name),) for name in (_RECOMMENDER, _UPDATER, _ADMISSION)},
}
"""The bindings of the roles; service accounts are in kube-system."""
