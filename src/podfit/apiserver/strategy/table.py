"""The strategies by kind. Kinds without a row here get the default one."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from podfit.api.registry.kinds import Kind
from podfit.apiserver.strategy.base import Strategy
from podfit.apiserver.strategy.devices import claims
from podfit.apiserver.strategy.devices import slices as devices
from podfit.apiserver.strategy.flows.levels import PriorityLevelStrategy
from podfit.apiserver.strategy.flows.schemas import FlowSchemaStrategy
from podfit.apiserver.strategy.kinds import access, limits, nodes, notes, plain
from podfit.apiserver.strategy.kinds.batch import cronjobs, jobs
from podfit.apiserver.strategy.kinds.extending import definitions, extensions, signing, webhooks
from podfit.apiserver.strategy.kinds.replicas import autoscalers, policy, stateful
from podfit.apiserver.strategy.kinds.replicas import workloads as apps
from podfit.apiserver.strategy.kinds.services import services
from podfit.apiserver.strategy.networking import ingresses, policies, ranges, slices
from podfit.apiserver.strategy.pod.pods import PodStrategy
from podfit.apiserver.strategy.policies import bindings, mutating, validating
from podfit.apiserver.strategy.storage import attachments, classes, csi, volumes

_RBAC = "rbac.authorization.k8s.io"
_NETWORKING, _STORAGE = "networking.k8s.io", "storage.k8s.io"
_DEVICES, _FLOWS = "resource.k8s.io", "flowcontrol.apiserver.k8s.io"
_HOOKS = "admissionregistration.k8s.io"
_TABLE: dict[tuple[str, str], type[Strategy]] = {
    ("", "Pod"): PodStrategy,
    ("", "ConfigMap"): plain.ConfigMapStrategy,
    ("", "Secret"): plain.SecretStrategy,
    ("", "ServiceAccount"): plain.ServiceAccountStrategy,
    ("", "Endpoints"): services.EndpointsStrategy,
    ("", "Event"): notes.CoreEventStrategy,
    ("", "LimitRange"): limits.LimitRangeStrategy,
    ("", "Namespace"): nodes.NamespaceStrategy,
    ("", "Node"): nodes.NodeStrategy,
    ("", "PersistentVolume"): volumes.PersistentVolumeStrategy,
    ("", "PersistentVolumeClaim"): volumes.PersistentVolumeClaimStrategy,
    ("", "PodTemplate"): apps.PodTemplateStrategy,
    ("", "ReplicationController"): apps.ReplicationControllerStrategy,
    ("", "ResourceQuota"): limits.ResourceQuotaStrategy,
    ("", "Service"): services.ServiceStrategy,
    ("apps", "ControllerRevision"): apps.ControllerRevisionStrategy,
    ("apps", "DaemonSet"): stateful.DaemonSetStrategy,
    ("apps", "Deployment"): apps.DeploymentStrategy,
    ("apps", "ReplicaSet"): apps.ReplicaSetStrategy,
    ("apps", "StatefulSet"): stateful.StatefulSetStrategy,
    ("batch", "CronJob"): cronjobs.CronJobStrategy,
    ("batch", "Job"): jobs.JobStrategy,
    ("policy", "PodDisruptionBudget"): policy.PodDisruptionBudgetStrategy,
    ("scheduling.k8s.io", "PriorityClass"): plain.PriorityClassStrategy,
    ("coordination.k8s.io", "Lease"): plain.LeaseStrategy,
    (_RBAC, "ClusterRole"): access.RoleStrategy,
    (_RBAC, "ClusterRoleBinding"): access.BindingStrategy,
    (_RBAC, "Role"): access.RoleStrategy,
    (_RBAC, "RoleBinding"): access.BindingStrategy,
    ("node.k8s.io", "RuntimeClass"): plain.RuntimeClassStrategy,
    ("autoscaling", "HorizontalPodAutoscaler"): autoscalers.AutoscalerStrategy,
    (_HOOKS, "MutatingWebhookConfiguration"): webhooks.WebhookConfigurationStrategy,
    (_HOOKS, "ValidatingWebhookConfiguration"): webhooks.WebhookConfigurationStrategy,
    (_HOOKS, "MutatingAdmissionPolicy"): mutating.MutatingAdmissionPolicyStrategy,
    (_HOOKS, "MutatingAdmissionPolicyBinding"): bindings.MutatingAdmissionPolicyBindingStrategy,
    (_HOOKS, "ValidatingAdmissionPolicy"): validating.ValidatingAdmissionPolicyStrategy,
    (_HOOKS, "ValidatingAdmissionPolicyBinding"): bindings.ValidatingAdmissionPolicyBindingStrategy,
    ("apiextensions.k8s.io", "CustomResourceDefinition"): definitions.CustomResourceDefinitionStrategy,
    ("events.k8s.io", "Event"): notes.EventStrategy,
    ("certificates.k8s.io", "CertificateSigningRequest"): signing.CertificateSigningRequestStrategy,
    ("apiregistration.k8s.io", "APIService"): extensions.APIServiceStrategy,
    ("discovery.k8s.io", "EndpointSlice"): slices.EndpointSliceStrategy,
    (_NETWORKING, "Ingress"): ingresses.IngressStrategy,
    (_NETWORKING, "IngressClass"): ingresses.IngressClassStrategy,
    (_NETWORKING, "IPAddress"): ranges.IPAddressStrategy,
    (_NETWORKING, "NetworkPolicy"): policies.NetworkPolicyStrategy,
    (_NETWORKING, "ServiceCIDR"): ranges.ServiceCIDRStrategy,
    (_STORAGE, "CSIDriver"): csi.CSIDriverStrategy,
    (_STORAGE, "CSINode"): csi.CSINodeStrategy,
    (_STORAGE, "CSIStorageCapacity"): csi.CSIStorageCapacityStrategy,
    (_STORAGE, "StorageClass"): classes.StorageClassStrategy,
    (_STORAGE, "VolumeAttachment"): attachments.VolumeAttachmentStrategy,
    (_STORAGE, "VolumeAttributesClass"): classes.VolumeAttributesClassStrategy,
    (_DEVICES, "DeviceClass"): devices.DeviceClassStrategy,
    (_DEVICES, "ResourceClaim"): claims.ResourceClaimStrategy,
    (_DEVICES, "ResourceClaimTemplate"): claims.ResourceClaimTemplateStrategy,
    (_DEVICES, "ResourceSlice"): devices.ResourceSliceStrategy,
    (_FLOWS, "FlowSchema"): FlowSchemaStrategy,
    (_FLOWS, "PriorityLevelConfiguration"): PriorityLevelStrategy,
}


@lru_cache(maxsize=1024)
def strategy_for(kind: Kind) -> Strategy:
    """The strategy of a row of the table of kinds. It depends only on the row.

    Custom kinds of two servers may be equal rows with different types: their strategy gets the row without the type.
    """
    if kind.custom:
        return plain.CustomStrategy(replace(kind, struct=None))
    return _TABLE.get((kind.group, kind.kind), Strategy)(kind)
