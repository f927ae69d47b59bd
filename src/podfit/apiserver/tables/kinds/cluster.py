"""Rows of cluster-level kinds: leases, classes, bindings, webhooks, certificates, API services."""

from __future__ import annotations

from typing import Any

from podfit.api.objects import Object
from podfit.apiserver.tables.columns import (
    AGE,
    NAME,
    NONE,
    Column,
    Layout,
    age,
    human_duration,
    name,
    spec,
    status,
    wide,
)


def _lease(obj: Object) -> list[Any]:
    return [name(obj), spec(obj).get("holderIdentity", ""), age(obj)]


def _priority_class(obj: Object) -> list[Any]:
    policy = obj.get("preemptionPolicy", "PreemptLowerPriority")
    return [name(obj), obj.get("value", 0), bool(obj.get("globalDefault")), age(obj), policy]


def _runtime_class(obj: Object) -> list[Any]:
    return [name(obj), obj.get("handler", ""), age(obj)]


def _binding(obj: Object) -> list[Any]:
    role, subjects = obj.get("roleRef") or {}, obj.get("subjects") or []

    def of(kind: str) -> str:
        return ", ".join(row.get("name", "") for row in subjects if row.get("kind") == kind)

    accounts = ", ".join(
        f"{row.get('namespace', '')}/{row.get('name', '')}" for row in subjects if row.get("kind") == "ServiceAccount"
    )
    return [
        name(obj),
        f"{role.get('kind', '')}/{role.get('name', '')}",
        age(obj),
        of("User"),
        of("Group"),
        accounts,
    ]


def _webhooks(obj: Object) -> list[Any]:
    return [name(obj), len(obj.get("webhooks") or []), age(obj)]


def _certificate(obj: Object) -> list[Any]:
    seconds = spec(obj).get("expirationSeconds")
    found = {row.get("type") for row in status(obj).get("conditions") or []}
    words = [next((word for word in ("Denied", "Approved") if word in found), "Pending")]
    words += ["Failed"] if "Failed" in found else []
    if status(obj).get("certificate"):
        words.append("Issued")
    return [
        name(obj),
        age(obj),
        spec(obj).get("signerName", ""),
        spec(obj).get("username", ""),
        human_duration(seconds) if seconds else NONE,
        ",".join(words),
    ]


def _api_service(obj: Object) -> list[Any]:
    service = spec(obj).get("service")
    target = f"{service.get('namespace')}/{service.get('name')}" if service else "Local"
    row: Object = next((row for row in status(obj).get("conditions") or [] if row.get("type") == "Available"), {})
    word = row.get("status", "Unknown")
    if row and word != "True" and row.get("reason"):
        word = f"{word} ({row['reason']})"
    return [name(obj), target, word, age(obj)]


_BINDINGS = Layout(
    (
        NAME,
        Column("Role", description="The role that is bound."),
        AGE,
        wide("Users", "Users in the binding."),
        wide("Groups", "Groups in the binding."),
        wide("ServiceAccounts", "Service accounts in the binding."),
    ),
    _binding,
)
_WEBHOOKS = Layout((NAME, Column("Webhooks", "integer", "How many webhooks it has."), AGE), _webhooks)
LAYOUTS: dict[tuple[str, str], Layout] = {
    ("coordination.k8s.io", "leases"): Layout(
        (NAME, Column("Holder", description="Who holds the lease."), AGE), _lease
    ),
    ("scheduling.k8s.io", "priorityclasses"): Layout(
        (
            NAME,
            Column("Value", "integer", "The priority of pods that name this class."),
            Column("Global-Default", "boolean", "Whether pods that name no class get this one."),
            AGE,
            Column("PreemptionPolicy", description="Whether its pods preempt others."),
        ),
        _priority_class,
    ),
    ("node.k8s.io", "runtimeclasses"): Layout(
        (NAME, Column("Handler", description="The runtime's own name of the configuration."), AGE), _runtime_class
    ),
    ("rbac.authorization.k8s.io", "rolebindings"): _BINDINGS,
    ("rbac.authorization.k8s.io", "clusterrolebindings"): _BINDINGS,
    ("admissionregistration.k8s.io", "mutatingwebhookconfigurations"): _WEBHOOKS,
    ("admissionregistration.k8s.io", "validatingwebhookconfigurations"): _WEBHOOKS,
    ("certificates.k8s.io", "certificatesigningrequests"): Layout(
        (
            NAME,
            AGE,
            Column("SignerName", description="Who is asked to sign."),
            Column("Requestor", description="Who asks."),
            Column("RequestedDuration", description="How long the certificate should be valid."),
            Column("Condition", description="How far the request is."),
        ),
        _certificate,
    ),
    ("apiregistration.k8s.io", "apiservices"): Layout(
        (
            NAME,
            Column("Service", description="Who serves the group."),
            Column("Available", description="Whether the service answers."),
            AGE,
        ),
        _api_service,
    ),
}
