"""The list of all controllers, and the function that runs them over shared caches. Used by the composer."""

from __future__ import annotations

import logging

from podfit.client import EventRecorder
from podfit.controllers.accounts import AccountsController, TokensController
from podfit.controllers.certificates import CertificatesController
from podfit.controllers.context import Controller, ControllerContext
from podfit.controllers.disruption import DisruptionController
from podfit.controllers.endpoints import (
    EndpointsController,
    EndpointSliceController,
    EndpointSliceMirroringController,
)
from podfit.controllers.garbage import GarbageCollector, PodGarbageController
from podfit.controllers.namespaces import NamespaceController
from podfit.controllers.nodes import NodeIpamController, NodeLifecycleController, TaintEvictionController
from podfit.controllers.protection import (
    AttributesClassProtectionController,
    ClaimProtectionController,
    ServiceRangesController,
    VolumeProtectionController,
)
from podfit.controllers.quota import QuotaController
from podfit.controllers.roles import RoleAggregationController
from podfit.controllers.volumes import VolumePhaseController
from podfit.controllers.workloads import (
    CronJobController,
    DaemonSetController,
    DeploymentController,
    JobController,
    ReplicaSetController,
    ReplicationControllerController,
    StatefulSetController,
)
from podfit.kit.concurrency.tasks import Tasks

log = logging.getLogger(__name__)

CONTROLLERS: tuple[type[Controller], ...] = (
    AccountsController,
    AttributesClassProtectionController,
    CertificatesController,
    ClaimProtectionController,
    CronJobController,
    DaemonSetController,
    DeploymentController,
    DisruptionController,
    EndpointSliceController,
    EndpointSliceMirroringController,
    EndpointsController,
    GarbageCollector,
    JobController,
    NamespaceController,
    NodeIpamController,
    NodeLifecycleController,
    PodGarbageController,
    QuotaController,
    ReplicaSetController,
    ReplicationControllerController,
    RoleAggregationController,
    ServiceRangesController,
    StatefulSetController,
    TaintEvictionController,
    TokensController,
    VolumePhaseController,
    VolumeProtectionController,
)

_SPEAKS_AS = {
    "disruption-controller": "controllermanager",
    "garbage-collector": "garbage-collector-controller",
    "node-ipam-controller": "cidrAllocator",
    "node-lifecycle-controller": "node-controller",
    "persistentvolume-binder-controller": "persistentvolume-controller",
}
"""Event sources in Kubernetes that differ from the controller's name."""

_ACTS_AS = {
    "certificate-controller": "certificate-controller",
    "clusterrole-aggregation-controller": "clusterrole-aggregation-controller",
    "cronjob-controller": "cronjob-controller",
    "daemonset-controller": "daemon-set-controller",
    "deployment-controller": "deployment-controller",
    "disruption-controller": "disruption-controller",
    "endpoints-controller": "endpoint-controller",
    "endpointslice-controller": "endpointslice-controller",
    "endpointslice-mirroring-controller": "endpointslicemirroring-controller",
    "garbage-collector": "generic-garbage-collector",
    "job-controller": "job-controller",
    "namespace-controller": "namespace-controller",
    "node-ipam-controller": "node-controller",
    "node-lifecycle-controller": "node-controller",
    "persistentvolume-binder-controller": "persistent-volume-binder",
    "persistentvolume-protection-controller": "pv-protection-controller",
    "persistentvolumeclaim-protection-controller": "pvc-protection-controller",
    "pod-garbage-collector": "pod-garbage-collector",
    "replicaset-controller": "replicaset-controller",
    "replication-controller": "replication-controller",
    "resourcequota-controller": "resourcequota-controller",
    "service-cidr-controller": "service-cidrs-controller",
    "serviceaccount-controller": "service-account-controller",
    "serviceaccount-token-controller": "",
    "statefulset-controller": "statefulset-controller",
    "taint-eviction-controller": "node-controller",
    "volumeattributesclass-protection-controller": "volumeattributesclass-protection-controller",
}
"""The service account of each controller, as in Kubernetes; "" for the controller manager's own."""


async def run_controllers(context: ControllerContext, only: frozenset[str] | None = None) -> None:
    """Runs all controllers (or the named ones) until cancelled."""
    chosen = [
        make(context.named(_SPEAKS_AS.get(make.name, make.name)).acting(_ACTS_AS[make.name]))  # type: ignore[call-arg]
        for make in CONTROLLERS
        if only is None or make.name in only
    ]
    tasks = Tasks("controllers")
    try:
        if isinstance(context.recorder, EventRecorder):
            tasks.start(context.recorder.run(), "events")
        await context.informers.start()
        running = [tasks.start(controller.run(), controller.name) for controller in chosen]
        for task in running:
            await task
    finally:
        await tasks.stop()
        await context.informers.stop()
