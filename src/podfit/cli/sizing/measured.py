"""Usage and recommendations as objects for `-o json`, in the format of metrics.k8s.io and with quantities."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from podfit.api.objects import Object
from podfit.api.registry.kinds import NODE_METRICS, POD_METRICS, VPA, Kind
from podfit.cli.printing.amounts import quantities
from podfit.cli.sizing.recommended import Recommendation
from podfit.cli.sizing.usage import ContainerUse, NodeUse
from podfit.vpa.model.objects.policy import update_mode


def _headed(kind: Kind, name: str, namespace: str = "") -> Object:
    where = {"namespace": namespace} if namespace else {}
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": name, **where}}


def _sampled(metrics: Object | None) -> Object:
    return {key: metrics[key] for key in ("timestamp", "window") if metrics and key in metrics}


def pod_objects(uses: Iterable[ContainerUse], metrics: Mapping[tuple[str, str], Object] | None) -> list[Object]:
    """PodMetrics with requests, limits, restarts and risk of each container."""
    found: dict[tuple[str, str], Object] = {}
    for use in uses:
        key = (use.namespace, use.pod)
        if key not in found:
            found[key] = {
                **_headed(POD_METRICS, use.pod, use.namespace), **_sampled((metrics or {}).get(key)), "containers": []
            }  # fmt: skip
        found[key]["containers"].append(_container(use))
    return list(found.values())


def _container(use: ContainerUse) -> Object:
    sizes = {"requests": quantities(use.requests), "limits": quantities(use.limits)}
    measured: dict[str, Any] = {} if use.used is None else {"usage": quantities(use.used)}
    risk = {"risk": use.risk} if use.risk else {}
    return {"name": use.container, **measured, "resources": sizes, "restartCount": use.restarts, **risk}


def node_objects(uses: Iterable[NodeUse], metrics: Mapping[str, Object] | None) -> list[Object]:
    """NodeMetrics with requested and allocatable resources."""
    return [
        {
            **_headed(NODE_METRICS, use.name),
            **_sampled((metrics or {}).get(use.name)),
            **({} if use.used is None else {"usage": quantities(use.used)}),
            "requested": quantities(use.requested),
            "allocatable": quantities(use.allocatable),
            "pods": use.pods,
            "waitingResizes": use.waiting,
        }
        for use in uses
    ]


def vpa_objects(given: Iterable[tuple[Object, list[Recommendation]]]) -> list[Object]:
    """Autoscalers with their recommendations beside the current requests of their pods."""
    return [
        {
            **_headed(VPA, vpa["metadata"]["name"], vpa["metadata"]["namespace"]),
            "updateMode": update_mode(vpa),
            "recommendations": [
                {"containerName": recommendation.container, **recommendation.data()}
                for recommendation in recommendations
                if recommendation.target is not None
            ],
        }
        for vpa, recommendations in given
    ]
