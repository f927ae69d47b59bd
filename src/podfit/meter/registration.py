"""What makes metrics.k8s.io known to a cluster: its APIService and the role that lets users read it."""

from __future__ import annotations

from podfit.api.kinds import kind_named
from podfit.api.status import ApiError, Object
from podfit.client.rest import Client
from podfit.meter.api import GROUP, VERSION

_API_SERVICE, _CLUSTER_ROLE = kind_named("APIService"), kind_named("ClusterRole")
NAME = f"{VERSION}.{GROUP}"


def role() -> Object:
    words = ("admin", "edit", "view")
    labels = {f"rbac.authorization.k8s.io/aggregate-to-{word}": "true" for word in words}
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "system:aggregated-metrics-reader", "labels": labels},
        "rules": [{"apiGroups": [GROUP], "resources": ["pods", "nodes"], "verbs": ["get", "list", "watch"]}],
    }


def api_service() -> Object:
    """Without a service: the group is answered by the API server's own process."""
    spec = {"group": GROUP, "version": VERSION, "groupPriorityMinimum": 100, "versionPriority": 100}
    return {
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {"name": NAME},
        "spec": spec,
    }


async def register(client: Client) -> None:
    """Creates what is missing."""
    for kind, body in ((_CLUSTER_ROLE, role()), (_API_SERVICE, api_service())):
        try:
            await client.create(kind, body)
        except ApiError as error:
            if error.code != 409:
                raise
