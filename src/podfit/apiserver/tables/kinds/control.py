"""Rows of control kinds: flow control, autoscalers, admission policies, claims of devices, component statuses."""

from __future__ import annotations

from typing import Any

from podfit.api.objects import Object
from podfit.apiserver.apis.autoscalers import in_measured_order, to_v2
from podfit.apiserver.tables.columns import (
    AGE,
    NAME,
    NONE,
    UNKNOWN,
    UNSET,
    Column,
    Layout,
    age,
    name,
    selector_text,
    spec,
    status,
)

_FLOWS, _ADMISSION, _DEVICES = "flowcontrol.apiserver.k8s.io", "admissionregistration.k8s.io", "resource.k8s.io"


def _flow_schema(obj: Object) -> list[Any]:
    row = spec(obj)
    method = row.get("distinguisherMethod")
    dangling = next(
        (
            condition.get("status")
            for condition in status(obj).get("conditions") or ()
            if condition.get("type") == "Dangling"
        ),
        "?",
    )
    return [
        name(obj),
        (row.get("priorityLevelConfiguration") or {}).get("name", ""),
        row.get("matchingPrecedence", 0),
        NONE if method is None else method.get("type", ""),
        age(obj),
        dangling,
    ]


def _priority_level(obj: Object) -> list[Any]:
    limited = spec(obj).get("limited")
    queuing = ((limited or {}).get("limitResponse") or {}).get("queuing")
    shares = NONE if limited is None else limited.get("nominalConcurrencyShares")
    fields = ("queues", "handSize", "queueLengthLimit")
    sizes = [NONE] * len(fields) if queuing is None else [queuing.get(field) for field in fields]
    return [name(obj), spec(obj).get("type", ""), shares, *sizes, age(obj)]


def _autoscaler(obj: Object) -> list[Any]:
    if obj.get("apiVersion") == "autoscaling/v1":
        obj = to_v2(obj)
        obj["spec"]["metrics"] = in_measured_order(obj["spec"]["metrics"], status(obj).get("currentMetrics") or [])
    target, fewest = spec(obj).get("scaleTargetRef") or {}, spec(obj).get("minReplicas")
    return [
        name(obj),
        f"{target.get('kind', '')}/{target.get('name', '')}",
        _targets(spec(obj).get("metrics") or [], status(obj).get("currentMetrics") or []),
        UNSET if fewest is None else str(fewest),
        spec(obj).get("maxReplicas", 0),
        status(obj).get("currentReplicas", 0),
        age(obj),
    ]


def _targets(metrics: list[Object], current: list[Object]) -> str:
    shown = [_target(row, current[at] if at < len(current) else {}) for at, row in enumerate(metrics)]
    return ", ".join(shown[:2]) + (f" + {len(shown) - 2} more..." if len(shown) > 2 else "") or NONE


def _target(metric: Object, measured: Object) -> str:
    """`measured/target` of one metric; the measurement is used only if it is of the same type."""
    kind = metric.get("type", "")
    field = kind[:1].lower() + kind[1:]
    source, now = metric.get(field), (measured.get(field) or {}).get("current") or {}
    if kind not in ("Resource", "ContainerResource", "Pods", "Object", "External") or source is None:
        return "<unknown type>"
    target = source.get("target") or {}
    if field in ("object", "external"):
        average = target.get("averageValue")
        if average is not None:
            return f"{now.get('averageValue', UNKNOWN)}/{average} (avg)"
        return f"{now.get('value', UNKNOWN)}/{target.get('value', UNKNOWN)}"
    average = target.get("averageValue")
    if field == "pods":
        return f"{now.get('averageValue', UNKNOWN)}/{average}"
    if average is not None:
        return f"{source.get('name', '')}: {now.get('averageValue', UNKNOWN)}/{average}"
    used, wanted = now.get("averageUtilization"), target.get("averageUtilization")
    shown = UNKNOWN if used is None else f"{used}%"
    return f"{source.get('name', '')}: {shown}/{'<auto>' if wanted is None else f'{wanted}%'}"


def _policy(count: str) -> Any:
    def cells(obj: Object) -> list[Any]:
        kind = spec(obj).get("paramKind")
        shown = UNSET if kind is None else f"{kind.get('apiVersion', '')}/{kind.get('kind', '')}"
        return [name(obj), len(spec(obj).get(count) or ()), shown, age(obj)]

    return cells


def _binding(obj: Object) -> list[Any]:
    reference, shown = spec(obj).get("paramRef") or {}, UNSET
    if reference.get("name"):
        shown = f"{reference.get('namespace') or '*'}/{reference['name']}"
    elif reference.get("selector") is not None:
        shown = selector_text(reference["selector"])
    return [name(obj), spec(obj).get("policyName", ""), shown, age(obj)]


def _claim(obj: Object) -> list[Any]:
    deleted = bool(obj["metadata"].get("deletionTimestamp"))
    states = ["deleted"] if deleted else []
    if status(obj).get("allocation") is not None:
        states.append("allocated")
        if status(obj).get("reservedFor"):
            states.append("reserved")
    elif not deleted:
        states.append("pending")
    return [name(obj), ",".join(states), age(obj)]


def _named(obj: Object) -> list[Any]:
    return [name(obj), age(obj)]


def _slice(obj: Object) -> list[Any]:
    row = spec(obj)
    return [
        name(obj),
        row.get("nodeName") or "",
        row.get("driver", ""),
        (row.get("pool") or {}).get("name", ""),
        age(obj),
    ]


def _component(obj: Object) -> list[Any]:
    row: Object | None = next(
        (condition for condition in obj.get("conditions") or () if condition.get("type") == "Healthy"), None
    )
    if row is None:
        return [name(obj), "Unknown", "", ""]
    word = "Healthy" if row.get("status") == "True" else "Unhealthy"
    return [name(obj), word, row.get("message", ""), row.get("error", "")]


_BINDING = Layout(
    (
        NAME,
        Column("PolicyName", description="The policy that is bound."),
        Column("ParamRef", description="The objects that parametrise the policy."),
        AGE,
    ),
    _binding,
)
_PARAM_KIND = Column("ParamKind", description="The kind of objects that parametrise the policy.")
LAYOUTS: dict[tuple[str, str], Layout] = {
    ("autoscaling", "horizontalpodautoscalers"): Layout(
        (
            NAME,
            Column("Reference", description="What is scaled."),
            Column("Targets", description="Measured and wanted values."),
            Column("MinPods", description="The fewest pods."),
            Column("MaxPods", description="The most pods."),
            Column("Replicas", description="The pods there are."),
            AGE,
        ),
        _autoscaler,
    ),
    (_FLOWS, "flowschemas"): Layout(
        (
            NAME,
            Column("PriorityLevel", description="The priority level of matching requests."),
            Column("MatchingPrecedence", description="Lower numbers are matched first."),
            Column("DistinguisherMethod", description="How requests of the schema are divided into flows."),
            AGE,
            Column("MissingPL", description="Whether the priority level does not exist."),
        ),
        _flow_schema,
    ),
    (_FLOWS, "prioritylevelconfigurations"): Layout(
        (
            NAME,
            Column("Type", description="Whether the level is limited."),
            Column("NominalConcurrencyShares", description="The level's share of seats."),
            Column("Queues", description="Number of queues."),
            Column("HandSize", description="Number of queues a flow may use."),
            Column("QueueLengthLimit", description="Number of requests a queue holds."),
            AGE,
        ),
        _priority_level,
    ),
    (_ADMISSION, "validatingadmissionpolicies"): Layout(
        (NAME, Column("Validations", "integer", "Number of validations."), _PARAM_KIND, AGE), _policy("validations")
    ),
    (_ADMISSION, "mutatingadmissionpolicies"): Layout(
        (NAME, Column("Mutations", "integer", "Number of mutations."), _PARAM_KIND, AGE), _policy("mutations")
    ),
    (_ADMISSION, "validatingadmissionpolicybindings"): _BINDING,
    (_ADMISSION, "mutatingadmissionpolicybindings"): _BINDING,
    (_DEVICES, "deviceclasses"): Layout((NAME, AGE), _named),
    (_DEVICES, "resourceclaims"): Layout(
        (NAME, Column("State", description="Whether the claim is allocated, reserved or pending."), AGE), _claim
    ),
    (_DEVICES, "resourceclaimtemplates"): Layout((NAME, AGE), _named),
    (_DEVICES, "resourceslices"): Layout(
        (
            NAME,
            Column("Node", description="The node that has the devices."),
            Column("Driver", description="The driver that publishes the slice."),
            Column("Pool", description="The pool the devices belong to."),
            AGE,
        ),
        _slice,
    ),
    ("", "componentstatuses"): Layout(
        (
            NAME,
            Column("Status", description="Whether the component is healthy."),
            Column("Message", description="What its health check says."),
            Column("Error", description="Why the health check failed."),
        ),
        _component,
    ),
}
