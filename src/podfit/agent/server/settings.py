"""/configz: the node's configuration, in the form of a KubeletConfiguration."""

from __future__ import annotations

from typing import Any

from podfit.agent.config import AgentConfig
from podfit.agent.decide.node.pressure import HOLD_S
from podfit.api.quantity import Quantity
from podfit.kit.durations import go_duration


def configz(config: AgentConfig, port: int) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "kind": "KubeletConfiguration",
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "port": port,
        "authentication": {
            "x509": {},
            "webhook": {"enabled": True, "cacheTTL": "2m0s"},
            "anonymous": {"enabled": False},
        },
        "authorization": {
            "mode": "Webhook",
            "webhook": {"cacheAuthorizedTTL": "5m0s", "cacheUnauthorizedTTL": "30s"},
        },
        "nodeStatusReportFrequency": go_duration(config.status_s),
        "nodeLeaseDurationSeconds": config.lease_duration_s,
        "cgroupDriver": config.cgroup_driver,
        "maxPods": config.max_pods,
        "clusterDomain": config.cluster_domain,
        "containerLogMaxSize": str(Quantity.of_units(config.log_max_bytes, "BinarySI")),
        "containerLogMaxFiles": config.log_max_files,
        "systemReserved": dict(config.reserved),
        "kubeReserved": dict(config.kube_reserved),
        "cpuManagerPolicy": config.policy.cpu_manager,
        "imageMinimumGCAge": go_duration(config.image_policy.min_age_s),
        "imageGCHighThresholdPercent": config.image_policy.high_percent,
        "imageGCLowThresholdPercent": config.image_policy.low_percent,
        "serializeImagePulls": config.most_pulls == 1,
        "maxParallelImagePulls": config.most_pulls or config.parallel_pulls,
        "evictionHard": {threshold.signal: threshold.text for threshold in config.eviction_hard},
        "evictionPressureTransitionPeriod": go_duration(HOLD_S),
    }
    if config.cluster_dns:
        shown["clusterDNS"] = list(config.cluster_dns)
    if config.static_dir is not None:
        shown["staticPodPath"] = str(config.static_dir)
    if config.reserved_cpus:
        shown["reservedSystemCPUs"] = config.reserved_cpus
    if config.feature_gates:
        shown["featureGates"] = dict(config.feature_gates)
    return {"kubeletconfig": shown}
