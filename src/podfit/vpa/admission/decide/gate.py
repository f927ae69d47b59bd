"""The scheduling gate for pods that must wait until an autoscaler controls them. Pure."""

from __future__ import annotations

from podfit.api.objects import ObjectView
from podfit.vpa.model.changing.gate import GATE, REQUIRES
from podfit.vpa.model.changing.jsonpatch import Patch, add
from podfit.vpa.model.objects.pods import annotations_of


def must_wait(pod: ObjectView, vpa: ObjectView | None) -> bool:
    """Whether the pod requires an autoscaler and none controls it. A pod that already has a node cannot wait."""
    return vpa is None and requires(pod) and not (pod.get("spec") or {}).get("nodeName")


def requires(pod: ObjectView) -> bool:
    return annotations_of(pod).get(REQUIRES) == "true"


def gate_patch(pod: ObjectView) -> Patch:
    """The patch that adds the scheduling gate; empty if the pod has it."""
    gates = (pod.get("spec") or {}).get("schedulingGates") or []
    if any(gate.get("name") == GATE for gate in gates):
        return []
    entry = {"name": GATE}
    return [add("/spec/schedulingGates/-", entry)] if gates else [add("/spec/schedulingGates", [entry])]
