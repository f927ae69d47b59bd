"""The admission chain: runs the enabled plugins phase by phase, in Kubernetes' order.

`build` makes it from the names to enable and disable. The plugins that apply to a write are computed once for each
(operation, resource, subresource) and phase, so a write to which none applies costs one dictionary lookup.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from podfit.apiserver.admission.base import Attributes, Cluster, Plugin
from podfit.apiserver.admission.certificates import (
    CertificateApproval,
    CertificateRequests,
    CertificateSigning,
    CertificateSubjectRestriction,
)
from podfit.apiserver.admission.claim_resize import PersistentVolumeClaimResize
from podfit.apiserver.admission.default_classes import DefaultIngressClass, DefaultStorageClass
from podfit.apiserver.admission.in_use_protection import StorageObjectInUseProtection
from podfit.apiserver.admission.limits.limit_ranger import LimitRanger
from podfit.apiserver.admission.limits.resource_quota import ResourceQuota
from podfit.apiserver.admission.namespace_lifecycle import NamespaceLifecycle
from podfit.apiserver.admission.nodes.node_declared_features import NodeDeclaredFeatureValidator
from podfit.apiserver.admission.nodes.node_restriction import NodeRestriction
from podfit.apiserver.admission.nodes.pod_topology_labels import PodTopologyLabels
from podfit.apiserver.admission.nodes.taint_nodes_by_condition import TaintNodesByCondition
from podfit.apiserver.admission.pods.default_toleration_seconds import DefaultTolerationSeconds
from podfit.apiserver.admission.pods.pod_resize import PodResizeValidator
from podfit.apiserver.admission.pods.pod_resource_allocation import PodResourceAllocation
from podfit.apiserver.admission.pods.priority import Priority
from podfit.apiserver.admission.pods.runtime_class import RuntimeClass
from podfit.apiserver.admission.pods.service_account import ServiceAccount
from podfit.apiserver.admission.podsecurity.plugin import PodSecurity
from podfit.apiserver.admission.webhooks.plugins import Webhooks
from podfit.apiserver.auth.authorize import Authorization
from podfit.kit.clock import Clock

_Key = tuple[str, str, str, str, str]


class UnknownPlugin(ValueError):
    """No admission plugin has that name; the message lists the existing ones."""

    exit_code = 2


class Chain:
    def __init__(self, plugins: Sequence[Plugin]) -> None:
        self.plugins = tuple(plugins)
        self._mutating: dict[_Key, tuple[Plugin, ...]] = {}
        self._validating: dict[_Key, tuple[Plugin, ...]] = {}

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(plugin.name for plugin in self.plugins)

    async def admit(self, attrs: Attributes) -> None:
        """The mutating phase: before the strategy and field validation. May change `attrs.object`."""
        kind = attrs.kind
        key = (attrs.operation, kind.group, kind.plural, kind.version, attrs.subresource)
        plugins = self._mutating.get(key)
        if plugins is None:
            plugins = self._mutating[key] = self._concerned(attrs, "admit")
        for plugin in plugins:
            await plugin.admit(attrs)
        if attrs.reinvoke:
            # A webhook changed the object: the plugins before it run once more, on the result.
            attrs.reinvocation = True
            for plugin in plugins:
                await plugin.admit(attrs)

    async def validate(self, attrs: Attributes) -> None:
        """The validating phase: after field validation, right before storing."""
        kind = attrs.kind
        key = (attrs.operation, kind.group, kind.plural, kind.version, attrs.subresource)
        plugins = self._validating.get(key)
        if plugins is None:
            plugins = self._validating[key] = self._concerned(attrs, "validate")
        for plugin in plugins:
            await plugin.validate(attrs)

    def _concerned(self, attrs: Attributes, phase: str) -> tuple[Plugin, ...]:
        inherited = getattr(Plugin, phase)
        return tuple(p for p in self.plugins if getattr(type(p), phase) is not inherited and p.handles(attrs))


DEFAULT_OFF = frozenset({"PodResizeValidator"})


def build(
    cluster: Cluster,
    *,
    enable: Collection[str] = (),
    disable: Collection[str] = (),
    always: Sequence[Plugin] = (),
    webhooks: Webhooks | None = None,
    policies: Plugin | None = None,
    mutating_policies: Plugin | None = None,
    authorization: Authorization | None = None,
    clock: Clock | None = None,
) -> Chain:
    """The default plugins plus `enable` minus `disable`, in Kubernetes' order; UnknownPlugin for an unknown name.

    `always` contains checks that cannot be disabled (RbacEscalation); they run right before the webhooks. Plugins that
    check permissions of a user need `authorization`; without it they are omitted."""
    plugins = _all(cluster, webhooks, policies, mutating_policies, authorization, clock)
    known = {plugin.name for plugin in plugins}
    unknown = [name for name in (*enable, *disable) if name not in known]
    if unknown:
        raise UnknownPlugin(f"unknown admission plugin {unknown[0]!r}; known are {', '.join(sorted(known))}")
    on = [p for p in plugins if p.name not in disable and (p.name in enable or p.name not in DEFAULT_OFF)]
    at = next((i for i, plugin in enumerate(on) if plugin.name in _LATE), len(on))
    return Chain([*on[:at], CertificateRequests(), *always, *on[at:]])


_LATE = (
    *("MutatingAdmissionPolicy", "MutatingAdmissionWebhook", "ValidatingAdmissionPolicy"),
    *("ValidatingAdmissionWebhook", "ResourceQuota"),
)


def _all(
    cluster: Cluster,
    webhooks: Webhooks | None,
    policies: Plugin | None,
    mutating_policies: Plugin | None,
    authorization: Authorization | None,
    clock: Clock | None,
) -> list[Plugin]:
    asking = [CertificateApproval(authorization), CertificateSigning(authorization)] if authorization else []
    return [
        NamespaceLifecycle(cluster),
        LimitRanger(cluster),
        ServiceAccount(cluster, clock),
        NodeRestriction(cluster),
        TaintNodesByCondition(),
        PodSecurity(cluster, clock),
        Priority(cluster),
        DefaultTolerationSeconds(),
        DefaultStorageClass(cluster),
        StorageObjectInUseProtection(),
        PersistentVolumeClaimResize(cluster),
        RuntimeClass(cluster),
        *asking,
        CertificateSubjectRestriction(),
        DefaultIngressClass(cluster),
        PodTopologyLabels(cluster),
        NodeDeclaredFeatureValidator(cluster),
        PodResizeValidator(cluster),
        PodResourceAllocation(),
        *((mutating_policies,) if mutating_policies is not None else ()),
        *((webhooks.mutating,) if webhooks is not None else ()),
        *((policies,) if policies is not None else ()),
        *((webhooks.validating,) if webhooks is not None else ()),
        ResourceQuota(cluster),
    ]
