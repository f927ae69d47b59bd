"""recommendation.podfit.dev/v1: the recommender as an extension API server.

A RecommendationQuery is created and answered, but not stored, like a TokenReview. Users send it to an API server, which
authenticates and authorises them: `create` on `recommendationqueries` in the pod's namespace.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from podfit.api.objects import Object
from podfit.api.registry.kinds import POD, kind_named
from podfit.api.status import ApiError, bad_request, required, unprocessable
from podfit.client import Client
from podfit.client.transport import Unreachable
from podfit.vpa.model.objects.pods import containers
from podfit.vpa.recommender.serving.lookup import vpa_of

if TYPE_CHECKING:
    from podfit.vpa.recommender.decide.histograms.cluster import Vpa
    from podfit.vpa.recommender.loop import Recommender

GROUP, VERSION, KIND, PLURAL = "recommendation.podfit.dev", "v1", "RecommendationQuery", "recommendationqueries"
API_VERSION = f"{GROUP}/{VERSION}"
_ROOT = f"/apis/{API_VERSION}"
_RESOURCE = {"name": PLURAL, "singularName": KIND.lower(), "namespaced": True, "kind": KIND, "verbs": ["create"]}
_RESOURCES = {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": API_VERSION, "resources": [_RESOURCE]}
_API_SERVICE = kind_named("APIService")
NO_VPA = "no VerticalPodAutoscaler controls this pod"


async def register(client: Client) -> None:
    """Registers the group with an API server of the same process."""
    spec = {"group": GROUP, "version": VERSION, "groupPriorityMinimum": 100, "versionPriority": 100}
    body = {"apiVersion": _API_SERVICE.api_version, "kind": "APIService", "metadata": {"name": f"{VERSION}.{GROUP}"}}
    try:
        await client.create(_API_SERVICE, {**body, "spec": spec})
    except ApiError as error:
        if error.code != 409:
            raise


class Queries:
    def __init__(self, recommender: Recommender) -> None:
        self._of = recommender

    async def answer(self, method: str, path: str, body: bytes) -> tuple[int, Object]:
        """The status code and the object of the response."""
        try:
            if path == _ROOT and method == "GET":
                return 200, _RESOURCES
            parts = path.removeprefix(f"{_ROOT}/").split("/")
            if len(parts) != 3 or parts[0] != "namespaces" or parts[2] != PLURAL:
                raise ApiError(404, "NotFound", "the server could not find the requested resource")
            if method != "POST":
                words = "the server does not allow this method on the requested resource"
                raise ApiError(405, "MethodNotAllowed", words)
            return 201, await self._query(parts[1], body)
        except ApiError as error:
            return error.code, error.to_status()

    async def _query(self, namespace: str, body: bytes) -> Object:
        query = _read(body)
        meta = query.get("metadata") or {}
        pod = _pod_of(query, namespace)
        if (meta.get("namespace") or namespace) != namespace:
            raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
        status = await status_for(self._of, pod)
        return {**query, "metadata": {**meta, "namespace": namespace}, "status": status}


def _read(body: bytes) -> Object:
    try:
        query = json.loads(body)
    except ValueError as error:
        raise bad_request(f"the object provided is unrecognized: {error}") from None
    if not isinstance(query, dict) or (query.get("apiVersion"), query.get("kind")) != (API_VERSION, KIND):
        raise bad_request(f"the object provided is not a {KIND} of {API_VERSION}")
    if not isinstance(query.get("metadata") or {}, dict):
        raise bad_request("metadata is not an object")
    return query


def _pod_of(query: Object, namespace: str) -> Object:
    """The pod in the query, in the namespace of the request. Raises ApiError."""
    spec = query.get("spec")
    pod = spec.get("pod") if isinstance(spec, dict) else None
    name = str((query.get("metadata") or {}).get("name") or "")
    if pod is None:
        raise unprocessable(KIND, name, [required("spec.pod")], GROUP)
    inner = pod.get("spec") if isinstance(pod, dict) else None
    rows = inner.get("containers") if isinstance(inner, dict) else None
    meta = pod.get("metadata") or {} if isinstance(pod, dict) else None
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows) or not isinstance(meta, dict):
        raise unprocessable(KIND, name, [required("spec.pod.spec.containers")], GROUP)
    if (meta.get("namespace") or namespace) != namespace:
        raise bad_request("the namespace of the pod does not match the namespace sent on the request")
    return {**pod, "metadata": {**meta, "namespace": namespace}}


async def status_for(recommender: Recommender, pod: Any) -> Object:
    """The recommendation for the pod's own containers, or for all containers if the pod names none."""
    vpa = vpa_of(recommender, pod)
    if vpa is None:
        return {"error": NO_VPA}
    known = recommender.recommendation_of(vpa).get("containerRecommendations") or []
    wanted, given = containers(pod), known
    if wanted:
        given = await _own(recommender, vpa, wanted, {entry["containerName"]: entry for entry in known})
    recommendation = recommender.with_similar(vpa.object, pod, given)
    if not recommendation:
        own, others = (", ".join(sorted(found)) for found in (_names(wanted, "name"), _names(known, "containerName")))
        why = f"recommends nothing for container {own}, only for {others}" if known else "has no recommendation yet"
        return {"error": f"VerticalPodAutoscaler {vpa.id[1]} {why}"}
    return {"recommendation": recommendation, "verticalPodAutoscaler": vpa.id[1]}


async def _own(
    recommender: Recommender, vpa: Vpa, wanted: Sequence[Mapping[str, Any]], known: Mapping[str, Object]
) -> list[Object]:
    """The recommendations of these containers: by name or, for other names, by a program that a pod of the autoscaler
    runs."""
    renamed = [container for container in wanted if container.get("name") not in known]
    alike = await _names_by_program(recommender, vpa) if renamed and vpa.pods else {}
    found = []
    for container in wanted:
        name = container.get("name") or ""
        source = name if name in known else alike.get(_program(container), "")
        if source in known:
            found.append({**known[source], "containerName": name})
    return found


async def _names_by_program(recommender: Recommender, vpa: Vpa) -> dict[str, str]:
    try:
        running = await recommender.client.find(POD, *min(vpa.pods))
    except (ApiError, Unreachable):
        return {}
    return {_program(container): container["name"] for container in containers(running or {})}


def _program(container: Mapping[str, Any]) -> str:
    """A key of image, command and arguments."""
    return json.dumps([container.get("image"), container.get("command") or [], container.get("args") or []])


def _names(entries: list[Any], field: str) -> list[str]:
    return [str(entry.get(field) or "") for entry in entries]
