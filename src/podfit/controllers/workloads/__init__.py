"""The controllers behind workload kinds: they own pods, or own what owns pods."""

from podfit.controllers.workloads.cronjob import CronJobController
from podfit.controllers.workloads.daemonset import DaemonSetController
from podfit.controllers.workloads.deployment import DeploymentController
from podfit.controllers.workloads.job import JobController
from podfit.controllers.workloads.replicaset import ReplicaSetController, ReplicationControllerController
from podfit.controllers.workloads.statefulset import StatefulSetController

__all__ = [
    "CronJobController",
    "DaemonSetController",
    "DeploymentController",
    "JobController",
    "ReplicaSetController",
    "ReplicationControllerController",
    "StatefulSetController",
]
