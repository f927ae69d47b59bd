"""Explains why a pod is on its node, or on none: what each other node lacked, and how much."""

from __future__ import annotations

from typing import Any

from podfit.api.objects import Object
from podfit.api.registry.kinds import NAMESPACE, NODE, POD
from podfit.cli.containers import oom_kills, oom_lines
from podfit.cli.node_side import story
from podfit.cli.printing.output import table
from podfit.client import Client
from podfit.scheduler.decide.explain import NodeVerdict, explain_objects
from podfit.vpa.model.changing.gate import GATE

MOST_NODES = 30


async def explain_place(client: Client, pod: Object) -> tuple[list[str], dict[str, Any]]:
    nodes = (await client.list(NODE))["items"]
    pods = (await client.list(POD))["items"]
    namespaces = (await client.list(NAMESPACE))["items"]
    verdicts = explain_objects(pod, nodes, pods, namespaces)
    chapters = await story(client, pod) or ()
    return [*lines(pod, verdicts), *oom_lines(pod, chapters)], {
        "pod": f"{pod['metadata']['namespace']}/{pod['metadata']['name']}",
        "oomKills": [kill.data() for kill in oom_kills(pod, chapters)],
        "node": pod["spec"].get("nodeName"),
        "nodes": [
            {
                "node": verdict.node,
                "fits": verdict.fits,
                "check": verdict.plugin,
                "reasons": list(verdict.reasons),
                "detail": verdict.detail,
            }
            for verdict in verdicts
        ],
    }


def lines(pod: Object, verdicts: list[NodeVerdict]) -> list[str]:
    name, node = pod["metadata"]["name"], pod["spec"].get("nodeName")
    fitting = [verdict for verdict in verdicts if verdict.fits]
    lines = [headline(pod, len(verdicts), len(fitting))]
    rows = [
        ["  " + verdict.node, _mark(verdict, node), _why(verdict, node)]
        for verdict in _ordered(verdicts, node)[:MOST_NODES]
    ]
    lines.append(table(rows, ["  NODE", "FITS", "WHY"]))
    if len(verdicts) > MOST_NODES:
        lines.append(f"  … and {len(verdicts) - MOST_NODES} more nodes")
    if not node and not fitting and verdicts:
        lines.append(_help(name, verdicts))
    return lines


def headline(pod: Object, nodes: int, fitting: int) -> str:
    name, node = pod["metadata"]["name"], pod["spec"].get("nodeName")
    if (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
        where = f"It ran on node {node}" if node else "It never had a node"
        return f"pod/{name} has ended ({pod['status']['phase']}). {where}; now {fitting} of {nodes} nodes fit:"
    if node:
        return f"pod/{name} is on node {node}. If it were placed now, {fitting} of {nodes} nodes could take it:"
    if gates := pod["spec"].get("schedulingGates"):
        held = ", ".join(gate["name"] for gate in gates)
        words = f"pod/{name} is not scheduled: scheduling gate {held} is set."
        if any(gate["name"] == GATE for gate in gates):
            return f"{words} Create a VerticalPodAutoscaler that controls the pod, or remove the gate."
        return f"{words} Remove it to schedule the pod."
    if not nodes:
        return f"pod/{name} is not scheduled: the cluster has no nodes."
    if fitting:
        return f"pod/{name} has no node yet, but {fitting} of {nodes} nodes could take it: the scheduler will place it."
    return f"pod/{name} has no node: none of {nodes} can take it."


def _ordered(verdicts: list[NodeVerdict], node: str | None) -> list[NodeVerdict]:
    return sorted(verdicts, key=lambda verdict: (verdict.node != node, not verdict.fits, verdict.node))


def _mark(verdict: NodeVerdict, node: str | None) -> str:
    return "is here" if verdict.node == node else "yes" if verdict.fits else "no"


def _why(verdict: NodeVerdict, node: str | None) -> str:
    if verdict.fits:
        return "there is room"
    why = ", ".join(verdict.reasons)
    why = f"{why}: {verdict.detail}" if verdict.detail else why
    return f"{why} (other pods hold the room)" if verdict.preemption_helps and verdict.shortages else why


def _help(name: str, verdicts: list[NodeVerdict]) -> str:
    short = [verdict for verdict in verdicts if verdict.shortages]
    if short:
        nearest = min(short, key=lambda verdict: len(verdict.shortages))
        missing = " and ".join(f"{shortage.missing} {shortage.resource}" for shortage in nearest.shortages)
        return f"Nearest: node {nearest.node} lacks {missing}. Shrink a pod there, or ask for less."
    return "No resource is lacking: labels, taints, affinity or ports refuse it (see above)."
