"""Reads usage from the external metrics API (`--use-external-metrics`), in the form of the resource metrics API.

As in upstream there is one query for each pod of an autoscaler and configured resource, but several run at a time. A
resource without a metric produces no samples; upstream would count zeros for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from podfit.api.objects import Object
from podfit.api.status import ApiError
from podfit.client import Client
from podfit.client.transport import Unreachable
from podfit.vpa.recommender.config import RecommenderConfig
from podfit.vpa.recommender.decide.histograms.cluster import ClusterState, PodId, Vpa
from podfit.vpa.recommender.intake.usage import UsageUnavailable

ROOT = "/apis/external.metrics.k8s.io/v1beta1"
NO_SAMPLE = ""
"""Not a quantity, so it counts as missing, whereas an absent value may count as zero."""


def metrics_of(config: RecommenderConfig) -> dict[str, str]:
    """The metrics to query, by resource."""
    named = {"cpu": config.external_metrics_cpu_metric, "memory": config.external_metrics_memory_metric}
    return {resource: metric for resource, metric in named.items() if metric}


async def fetch(client: Client, cluster: ClusterState, config: RecommenderConfig) -> list[Object]:
    """PodMetrics of all pods that autoscalers select. Raises UsageUnavailable."""
    gate = asyncio.Semaphore(max(1, config.update_worker_count))

    async def one(vpa: Vpa, pod: PodId) -> Object | None:
        async with gate:
            return await _pod(client, vpa, pod, config)

    calls = [one(vpa, pod) for vpa in cluster.vpas.values() for pod in sorted(vpa.pods)]
    try:
        found = await asyncio.gather(*calls)
    except (ApiError, Unreachable) as error:
        raise UsageUnavailable(str(error)) from error
    return [item for item in found if item is not None]


async def _pod(client: Client, vpa: Vpa, pod: PodId, config: RecommenderConfig) -> Object | None:
    stamp: Any = None
    usage: dict[str, dict[str, Any]] = {}
    for resource, metric in metrics_of(config).items():
        query = {"labelSelector": ",".join(part for part in (str(vpa.selector), f"pod={pod[1]}") if part)}
        answer = await client.raw("GET", f"{ROOT}/namespaces/{pod[0]}/{metric}", query)
        items = [item for item in (answer or {}).get("items") or () if isinstance(item, Mapping)]
        if items:
            stamp = items[0].get("timestamp")
        for item in items:
            name = (item.get("metricLabels") or {}).get(config.prometheus.container_name_label)
            if name:
                usage.setdefault(name, {"cpu": NO_SAMPLE, "memory": NO_SAMPLE})[resource] = item.get("value")
    if stamp is None:
        return None
    containers = [{"name": name, "usage": used} for name, used in usage.items()]
    return {"metadata": {"namespace": pod[0], "name": pod[1]}, "timestamp": stamp, "containers": containers}
