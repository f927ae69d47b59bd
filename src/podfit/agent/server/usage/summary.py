"""The kubelet's /stats/summary: usage of the node, its pods and containers as JSON."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from podfit.agent.runtimes.values import Usage
from podfit.agent.server.usage.usage import ContainerSample, NodeSample, PodSample
from podfit.kit.clock import rfc3339


def summary(node: NodeSample, name: str, capacity_bytes: int, data_dir: Path, started_at: float) -> dict[str, Any]:
    disk = _disk(data_dir, node.at)
    whole: dict[str, Any] = {
        "nodeName": name,
        "startTime": rfc3339(started_at),
        "cpu": _cpu(node.usage, node.nano_cores),
        "memory": _memory(node.usage, capacity_bytes),
    }
    if disk:
        whole["fs"] = disk
        whole["runtime"] = {"imageFs": disk, "containerFs": disk}
    return {"node": whole, "pods": [_pod(pod) for pod in node.pods]}


def _pod(pod: PodSample) -> dict[str, Any]:
    record = pod.record
    return {
        "podRef": {"name": record.name, "namespace": record.namespace, "uid": record.uid},
        "startTime": rfc3339(pod.created_at),
        "containers": [_container(container) for container in pod.containers],
        "cpu": _cpu(pod.usage, pod.nano_cores),
        "memory": _memory(pod.usage, pod.limits.memory_bytes),
        "process_stats": {"process_count": pod.usage.processes},
    }


def _container(sample: ContainerSample) -> dict[str, Any]:
    return {
        "name": sample.state.name,
        "startTime": rfc3339(sample.state.started_at),
        "cpu": _cpu(sample.usage, sample.nano_cores),
        "memory": _memory(sample.usage, sample.limits.memory_bytes),
    }


def _cpu(usage: Usage, nano_cores: int | None) -> dict[str, Any]:
    shown: dict[str, Any] = {"time": rfc3339(usage.at)}
    if nano_cores is not None:
        shown["usageNanoCores"] = nano_cores
    return {**shown, "usageCoreNanoSeconds": usage.cpu_nanos}


def _memory(usage: Usage, limit_bytes: int | None) -> dict[str, Any]:
    shown: dict[str, Any] = {"time": rfc3339(usage.at)}
    if limit_bytes:
        shown["availableBytes"] = max(0, limit_bytes - usage.working_set_bytes)
    return {
        **shown,
        "usageBytes": usage.memory_bytes,
        "workingSetBytes": usage.working_set_bytes,
        "rssBytes": usage.rss_bytes,
        "pageFaults": usage.page_faults,
        "majorPageFaults": usage.major_page_faults,
    }


def _disk(folder: Path, at: float) -> dict[str, Any]:
    try:
        found = os.statvfs(folder)
    except OSError:
        return {}
    capacity, free = found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize
    return {
        "time": rfc3339(at),
        "availableBytes": free,
        "capacityBytes": capacity,
        "usedBytes": (found.f_blocks - found.f_bfree) * found.f_frsize,
        "inodesFree": found.f_ffree,
        "inodes": found.f_files,
        "inodesUsed": found.f_files - found.f_ffree,
    }
