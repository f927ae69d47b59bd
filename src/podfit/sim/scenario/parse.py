"""Parses the YAML text of a scenario into values. The command line calls it, and reads the files."""

from __future__ import annotations

from typing import Any

from podfit.api.schema.decoding.yaml_nodes import YamlError
from podfit.api.schema.decoding.yamls import parse_yaml
from podfit.sim.scenario import model
from podfit.sim.scenario.fields import (
    BadScenario,
    Fields,
    entries,
    factor,
    labels,
    memory,
    millicores,
    name,
    number,
    one_of,
    seconds,
    text,
    whole,
)
from podfit.sim.scenario.model import Autoscaler, Curve, Fault, NodeGroup, Scenario, Size, Workload
from podfit.vpa.policies.table import POLICIES

MOST_NODES, MOST_PODS, MOST_STEPS = 100_000, 2_000_000, 100_000
DAY = 86400.0


def parse(source: str) -> Scenario:
    fields = Fields("", _mapping(source))
    found = Scenario(
        fields.need("nodes", _node_groups),
        fields.need("workloads", _workloads),
        fields.maybe("faults", lambda path, value: tuple(_fault(*entry) for entry in entries(path, value)), ()),
        fields.maybe("duration", _positive, DAY),
        fields.maybe("step", _positive, 300.0),
        fields.maybe("history", seconds, 0.0),
        fields.maybe("seed", whole(0, 2**63 - 1), 0),
        fields.maybe("policy", one_of(tuple(POLICIES)), "default"),
    )
    fields.done()
    _check(found)
    return found


def _mapping(source: str) -> Any:
    try:
        found, twice = parse_yaml(source.encode())
    except YamlError as error:
        raise BadScenario(f"not YAML: {' '.join(str(error).split())}") from error
    if twice:
        raise BadScenario(" ".join(twice[0].split()))
    return found


def _check(scenario: Scenario) -> None:
    if not 1 <= scenario.step_s <= 3600:
        raise BadScenario(f"step: {scenario.step_s:g} s is not between 1 s and 1 h")
    if scenario.duration_s < scenario.step_s:
        raise BadScenario("duration: shorter than one step")
    for path, length_s in (("duration", scenario.duration_s), ("history", scenario.history_s)):
        if length_s / scenario.step_s > MOST_STEPS:
            raise BadScenario(f"{path}: more than {MOST_STEPS} steps of {scenario.step_s:g} s")
    if sum(group.count for group in scenario.nodes) > MOST_NODES:
        raise BadScenario(f"nodes: more than {MOST_NODES} in all")
    if scenario.pods > MOST_PODS:
        raise BadScenario(f"workloads: more than {MOST_PODS} pods in all")
    known = {group.name for group in scenario.nodes}
    for at, fault in enumerate(scenario.faults):
        if fault.nodes and fault.nodes not in known:
            raise BadScenario(f"faults[{at}].nodes: {fault.nodes!r} is not one of {', '.join(sorted(known))}")
        if fault.at_s >= scenario.duration_s:
            raise BadScenario(f"faults[{at}].at: after the end of the simulation")


def _positive(path: str, value: Any) -> float:
    found = seconds(path, value)
    if found <= 0:
        raise BadScenario(f"{path}: must be longer than 0")
    return found


def _unique(path: str, names: list[str]) -> None:
    for at, own in enumerate(names):
        if own in names[:at]:
            raise BadScenario(f"{path}[{at}].name: {own!r} is used twice")


def _some(path: str, found: tuple[Any, ...]) -> None:
    if not found:
        raise BadScenario(f"{path}: at least one is needed")
    _unique(path, [entry.name for entry in found])


def _node_groups(path: str, value: Any) -> tuple[NodeGroup, ...]:
    found = tuple(_node_group(*entry) for entry in entries(path, value))
    _some(path, found)
    return found


def _node_group(path: str, value: Any) -> NodeGroup:
    fields = Fields(path, value)
    has = fields.part("allocatable")
    found = NodeGroup(
        fields.need("name", name),
        fields.maybe("count", whole(1, MOST_NODES), 1),
        has.need("cpu", millicores),
        has.need("memory", memory),
        has.maybe("pods", whole(0, 10_000), 110),
        fields.maybe("labels", labels, {}),
    )
    has.done()
    fields.done()
    return found


def _workloads(path: str, value: Any) -> tuple[Workload, ...]:
    found = tuple(_workload(*entry) for entry in entries(path, value))
    _some(path, found)
    return found


def _workload(path: str, value: Any) -> Workload:
    fields = Fields(path, value)
    requests, usage = fields.part("requests"), fields.part("usage")
    found = Workload(
        fields.need("name", name),
        fields.maybe("replicas", whole(1, MOST_PODS), 1),
        requests.need("cpu", millicores),
        requests.need("memory", memory),
        _size(fields.part("limits")),
        usage.need("cpu", lambda at, given: _curve(at, given, "cpu")),
        usage.need("memory", lambda at, given: _curve(at, given, "memory")),
        fields.maybe("autoscaler", _autoscaler, Autoscaler()),
        fields.maybe("priority", whole(-(2**31), 10**9), 0),
        fields.maybe("nodeSelector", labels, {}),
        fields.maybe("startup", seconds, 10.0),
    )
    for part in (requests, usage, fields):
        part.done()
    for resource in ("cpu", "memory"):
        request, limit = getattr(found, resource), getattr(found.limits, resource)
        if request <= 0:
            raise BadScenario(f"{path}.requests.{resource}: must be above 0")
        if limit is not None and limit < request:
            raise BadScenario(f"{path}.limits.{resource}: below the request")
    return found


def _size(fields: Fields) -> Size:
    found = Size(fields.maybe("cpu", millicores, None), fields.maybe("memory", memory, None))
    fields.done()
    return found


def _autoscaler(path: str, value: Any) -> Autoscaler:
    fields = Fields(path, value)
    found = Autoscaler(
        fields.maybe("mode", one_of(model.MODES), model.IN_PLACE_OR_RECREATE),
        fields.maybe("policy", one_of(tuple(POLICIES)), None),
        _size(fields.part("minAllowed")),
        _size(fields.part("maxAllowed")),
        fields.maybe("minReplicas", whole(1, MOST_PODS), 2),
    )
    fields.done()
    for resource in ("cpu", "memory"):
        least, most = getattr(found.least, resource), getattr(found.most, resource)
        if least is not None and most is not None and least > most:
            raise BadScenario(f"{path}.minAllowed.{resource}: above maxAllowed")
    return found


def _curve(path: str, value: Any, resource: str) -> Curve:
    fields = Fields(path, value)

    def amount(at: str, given: Any) -> float:
        return millicores(at, given) / 1000.0 if resource == "cpu" else float(memory(at, given))

    kind = fields.need("curve", one_of(model.CURVES))
    noise = fields.maybe("noise", number(0.0, 3.0), 0.0)
    if kind == model.CONSTANT:
        found = Curve(kind, fields.need("level", amount), noise=noise)
    elif kind == model.LEAK:
        rate = fields.need("perHour", amount) / 3600.0
        found = Curve(kind, fields.need("level", amount), rate=rate, noise=noise)
    elif kind == model.TRACE:
        found = Curve(
            kind,
            noise=noise,
            file=fields.need("file", text),
            scale=fields.maybe("scale", factor, 1.0),
            series=fields.maybe("series", whole(0, 10**9), None),
        )
    else:
        found = _moving(fields, kind, amount, noise)
    fields.done()
    return found


def _moving(fields: Fields, kind: str, amount: Any, noise: float) -> Curve:
    low, high = fields.need("low", amount), fields.need("high", amount)
    if kind == model.DAILY:
        return Curve(kind, low, high, peak_s=fields.maybe("peak", seconds, 14 * 3600.0), noise=noise)
    if kind == model.BURSTS:
        every_s, over_s = fields.need("every", _positive), fields.need("for", _positive)
        return Curve(kind, low, high, every_s=every_s, over_s=over_s, noise=noise)
    return Curve(kind, low, high, over_s=fields.need("over", _positive), noise=noise)


def _fault(path: str, value: Any) -> Fault:
    fields = Fields(path, value)
    kind = fields.need("fault", one_of(model.FAULTS))
    at_s, for_s = fields.need("at", seconds), fields.need("for", _positive)
    found = Fault(kind, at_s, for_s)
    if kind == model.NODE_DOWN:
        nodes, count = fields.maybe("nodes", name, ""), fields.maybe("count", whole(1, MOST_NODES), 1)
        found = Fault(kind, at_s, for_s, nodes, count)
    fields.done()
    return found
