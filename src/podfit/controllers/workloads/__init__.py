"""Controllers of workload kinds: they own pods, or objects that own pods."""

from podfit.controllers.workloads.deployments.deployment import DeploymentController
from podfit.controllers.workloads.deployments.replicaset import ReplicaSetController, ReplicationControllerController
from podfit.controllers.workloads.jobs.cronjob import CronJobController
from podfit.controllers.workloads.jobs.job import JobController
from podfit.controllers.workloads.sets.daemonset import DaemonSetController
from podfit.controllers.workloads.sets.statefulset import StatefulSetController

__all__ = [
    "CronJobController",
    "DaemonSetController",
    "DeploymentController",
    "JobController",
    "ReplicaSetController",
    "ReplicationControllerController",
    "StatefulSetController",
]
