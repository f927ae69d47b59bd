"""metrics.k8s.io/v1beta1 over a meter: get and list of NodeMetrics and PodMetrics, plain or as tables.

The API server decides which pods and nodes exist and match a selector: their metadata is read from it and combined with
the meter's numbers. A component of this process that watches pods itself, such as the autoscaler, reads the numbers
alone (`api.numbers`). This module does not depend on any HTTP library.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from podfit.api.numbers import NUMBERS, THROTTLED
from podfit.api.objects import Object
from podfit.api.quantity import Quantity
from podfit.api.registry.kinds import NODE, POD, Kind
from podfit.api.status import ApiError
from podfit.client.rest import Client
from podfit.client.transport import Unreachable
from podfit.kit.clock import rfc3339
from podfit.meter.meter import Meter
from podfit.meter.rates import Use

GROUP, VERSION = "metrics.k8s.io", "v1beta1"
RESOURCES: list[Object] = [
    {"name": "nodes", "singularName": "", "namespaced": False, "kind": "NodeMetrics", "verbs": ["get", "list"]},
    {"name": "pods", "singularName": "", "namespaced": True, "kind": "PodMetrics", "verbs": ["get", "list"]},
]
_SELECTORS = ("labelSelector", "fieldSelector")
_TABLE = "as=Table"
_ONE = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
_MANY = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
Query = Mapping[str, Sequence[str]]


class Meta(msgspec.Struct, gc=False):
    """The metadata fields of an object that its metrics show. The other fields, most of a response, are not decoded: a
    scrape of all pods would create hundreds of thousands of dictionaries."""

    name: str
    namespace: str = ""
    labels: dict[str, str] | None = None


class _One(msgspec.Struct, gc=False):
    metadata: Meta


class _Many(msgspec.Struct):
    items: list[_One] | None = None


_read_one, _read_many = msgspec.json.Decoder(_One).decode, msgspec.json.Decoder(_Many).decode


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    value: Object
    """Read only."""
    content_type: str = "application/json"

    @property
    def body(self) -> bytes:
        return msgspec.json.encode(self.value)


def refusal(error: ApiError) -> Answer:
    return Answer(error.code, error.to_status())


class MetricsApi:
    def __init__(self, meter: Meter, client: Client) -> None:
        self._meter, self._client = meter, client

    async def answer(
        self, method: str, path: str, query: Query, headers: Mapping[str, str], here: bool = False
    ) -> Answer:
        """The response to a request. `headers` have lower-case names; `here` is set if the response need not be
        encoded. Errors are metav1.Status objects."""
        accepted = headers.get("accept", "")
        form = NUMBERS if here and NUMBERS in accepted else _TABLE if _TABLE in accepted else ""
        try:
            return Answer(200, await self._value(method, path, query, form))
        except ApiError as error:
            return refusal(error)
        except Unreachable as error:
            return refusal(ApiError(503, "ServiceUnavailable", f"the API server cannot be reached: {error}"))

    async def _value(self, method: str, path: str, query: Query, form: str) -> Object:
        parts = path.strip("/").split("/")[3:]
        if method not in ("GET", "HEAD") or _first(query, "watch") in ("true", "1"):
            raise ApiError(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")
        if not parts:
            return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": _version(), "resources": RESOURCES}
        if parts[0] == "nodes" and len(parts) <= 2:
            return await self._nodes(parts[1] if len(parts) == 2 else "", query, form)
        if parts == ["pods"]:
            return await self._pods("", "", query, form)
        if parts[0] == "namespaces" and len(parts) in (3, 4) and parts[2] == "pods":
            return await self._pods(parts[1], parts[3] if len(parts) == 4 else "", query, form)
        raise ApiError(404, "NotFound", "the server could not find the requested resource")

    # --- nodes
    async def _nodes(self, name: str, query: Query, form: str) -> Object:
        rows = [
            (meta, use)
            for meta in await self._metadata(NODE, "", name, query, "nodemetrics")
            if (use := self._meter.node(meta.name)) is not None
        ]
        items = [_node_metrics(meta, use) for meta, use in rows]
        return _as_table_or_objects("NodeMetrics", items, name, form, "nodemetrics", name)

    # --- pods
    async def _pods(self, namespace: str, name: str, query: Query, form: str) -> Object:
        if form == NUMBERS and not name and not _selectors(query):
            return {**_list_of("PodMetrics"), "numbers": await self._meter.numbers(namespace)}
        items = []
        for meta in await self._metadata(POD, namespace, name, query, "podmetrics"):
            uses = self._meter.pod(meta.namespace, meta.name)
            if uses:
                items.append(_pod_metrics(meta, uses))
        return _as_table_or_objects("PodMetrics", items, name, form, "podmetrics", f"{namespace}/{name}")

    async def _metadata(self, kind: Kind, namespace: str, name: str, query: Query, word: str) -> list[Meta]:
        if name:
            try:
                response = await self._client.raw(
                    "GET", kind.path(namespace, name), headers={"Accept": _ONE}, decode=_read_one
                )
            except ApiError as error:
                raise (
                    _missing(word, f"{namespace}/{name}" if namespace else name) if error.code == 404 else error
                ) from None
            return [response.metadata]
        listed = await self._client.raw(
            "GET", kind.path(namespace), _selectors(query), headers={"Accept": _MANY}, decode=_read_many
        )
        return [item.metadata for item in listed.items or ()]


def _version() -> str:
    return f"{GROUP}/{VERSION}"


def _first(query: Query, name: str) -> str:
    return (query.get(name) or [""])[0]


def _selectors(query: Query) -> dict[str, str]:
    return {key: _first(query, key) for key in _SELECTORS if _first(query, key)}


def _missing(word: str, name: str) -> ApiError:
    details = {"name": name, "group": GROUP, "kind": word}
    return ApiError(404, "NotFound", f'{word}.{GROUP} "{name}" not found', details)


def _usage(use: Use) -> dict[str, str]:
    throttled = round(use.throttled * 1000)
    return {
        "cpu": str(Quantity(round(use.cores * 1e9))),
        "memory": str(Quantity.of_units(round(use.memory_bytes), "BinarySI")),
        **({THROTTLED: str(Quantity.of_milli(throttled))} if throttled else {}),
    }


def _window(seconds: float) -> str:
    """A duration as Go prints it, rounded to milliseconds."""
    millis = round(seconds * 1000)
    minutes, rest = divmod(millis, 60_000)
    hours, minutes = divmod(minutes, 60)
    text = f"{rest / 1000:.3f}".rstrip("0").rstrip(".") + "s"
    if hours:
        return f"{hours}h{minutes}m{text}"
    return f"{minutes}m{text}" if minutes else text


def _measured(meta: Meta, use: Use) -> Object:
    """The metadata, timestamp and window of a metrics object."""
    at = rfc3339(use.at)
    shown: Object = {"name": meta.name, "creationTimestamp": at}
    if meta.namespace:
        shown["namespace"] = meta.namespace
    if meta.labels:
        shown["labels"] = meta.labels
    return {"metadata": shown, "timestamp": at, "window": _window(use.window_s)}


def _node_metrics(meta: Meta, use: Use) -> Object:
    return {**_measured(meta, use), "usage": _usage(use)}


def _pod_metrics(meta: Meta, uses: Mapping[str, Use]) -> Object:
    shown = _measured(meta, min(uses.values(), key=lambda use: use.at))
    shown["containers"] = [{"name": name, "usage": _usage(use)} for name, use in sorted(uses.items())]
    return shown


def _list_of(kind: str) -> Object:
    return {"kind": f"{kind}List", "apiVersion": _version(), "metadata": {}}


def _as_table_or_objects(kind: str, items: list[Object], name: str, form: str, word: str, full_name: str) -> Object:
    if name and not items:
        raise _missing(word, full_name)
    if form == _TABLE:
        return _table(items)
    if name:
        return {"kind": kind, "apiVersion": _version(), **items[0]}
    return {**_list_of(kind), "items": items}


def _table(items: list[Object]) -> Object:
    columns = [
        {"name": "Name", "type": "string", "format": "name", "description": "Name of the resource", "priority": 0},
        *(
            {"name": word, "type": "string", "format": "", "description": "", "priority": 0}
            for word in ("cpu", "memory")
        ),
        {"name": "Window", "type": "string", "format": "duration", "description": "", "priority": 0},
    ]
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": {},
        "columnDefinitions": columns,
        "rows": [_row(item) for item in items],
    }


def _row(item: Object) -> dict[str, Any]:
    usages = [item["usage"]] if "usage" in item else [container["usage"] for container in item["containers"]]
    total = {
        word: str(sum((Quantity.parse(usage[word]) for usage in usages), Quantity(0))) for word in ("cpu", "memory")
    }
    partial = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": item["metadata"]}
    return {"cells": [item["metadata"]["name"], total["cpu"], total["memory"], item["window"]], "object": partial}
