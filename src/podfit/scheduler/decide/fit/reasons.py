"""The reasons why a node does not fit a pod, in the order of the checks, with Kubernetes' message for each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from enum import IntEnum

NO_NODES = "no nodes available to schedule pods"
NO_CLAIMS = "no new claims to deallocate"
NOT_HELPFUL = "Preemption is not helpful for scheduling"
NO_VICTIMS = "No preemption victims found for incoming pod"
NEVER = "not eligible due to preemptionPolicy=Never."
TERMINATING = "not eligible due to a terminating pod on the nominated node."
CONFLICT = "pod affinity terms conflict"
TOO_MANY_PODS = "Too many pods"


class Code(IntEnum):
    FITS = 0
    UNSCHEDULABLE = 1
    NODE_NAME = 2
    TAINT = 3
    SELECTOR = 4
    PORTS = 5
    RESOURCES = 6
    SPREAD = 7
    SPREAD_LABEL = 8
    AFFINITY = 9
    ANTI_AFFINITY = 10
    EXISTING_ANTI_AFFINITY = 11
    NOT_NAMED = 12
    """The pod's affinity lists nodes by name, and not this one."""
    CLAIM = 13
    """A volume claim of the pod does not exist: no node fits."""
    NO_ROW = 100


WORDS: dict[Code, str] = {
    Code.UNSCHEDULABLE: "node(s) were unschedulable",
    Code.NODE_NAME: "node(s) didn't match the requested node name",
    Code.TAINT: "node(s) had untolerated taint(s)",
    Code.SELECTOR: "node(s) didn't match Pod's node affinity/selector",
    Code.PORTS: "node(s) didn't have free ports for the requested pod ports",
    Code.SPREAD: "node(s) didn't match pod topology spread constraints",
    Code.SPREAD_LABEL: "node(s) didn't match pod topology spread constraints (missing required label)",
    Code.AFFINITY: "node(s) didn't match pod affinity rules",
    Code.ANTI_AFFINITY: "node(s) didn't match pod anti-affinity rules",
    Code.EXISTING_ANTI_AFFINITY: "node(s) didn't satisfy existing pods anti-affinity rules",
    Code.NOT_NAMED: "node(s) didn't satisfy plugin(s) [NodeAffinity]",
    Code.CLAIM: "node(s) didn't satisfy plugin(s) [VolumeBinding]",
}

HOPELESS = (
    Code.UNSCHEDULABLE,
    Code.NODE_NAME,
    Code.TAINT,
    Code.SELECTOR,
    Code.SPREAD_LABEL,
    Code.AFFINITY,
    Code.NOT_NAMED,
    Code.CLAIM,
)
"""Refusals that removing pods cannot resolve."""

PLUGINS: dict[Code, str] = {
    Code.UNSCHEDULABLE: "NodeUnschedulable",
    Code.NODE_NAME: "NodeName",
    Code.TAINT: "TaintToleration",
    Code.SELECTOR: "NodeAffinity",
    Code.PORTS: "NodePorts",
    Code.RESOURCES: "NodeResourcesFit",
    Code.SPREAD: "PodTopologySpread",
    Code.SPREAD_LABEL: "PodTopologySpread",
    Code.AFFINITY: "InterPodAffinity",
    Code.ANTI_AFFINITY: "InterPodAffinity",
    Code.EXISTING_ANTI_AFFINITY: "InterPodAffinity",
    Code.NOT_NAMED: "NodeAffinity",
    Code.CLAIM: "VolumeBinding",
}


def insufficient(resource: str) -> str:
    return TOO_MANY_PODS if resource == "pods" else f"Insufficient {resource}"


def available(nodes: int, reasons: Mapping[str, int] | Counter[str], before: str = "") -> str:
    """ "0/3 nodes are available: 1 Insufficient cpu, 2 node(s) were unschedulable."; `before` replaces the list."""
    listed = before or ", ".join(sorted(f"{count} {reason}" for reason, count in reasons.items() if count))
    return f"0/{nodes} nodes are available:" + (f" {listed}." if listed else "")


def refusal(first: str, preemption: str) -> str:
    """The whole message for a pod that fits no node and cannot preempt either."""
    return f"{first} {NO_CLAIMS}, preemption: {preemption}"
