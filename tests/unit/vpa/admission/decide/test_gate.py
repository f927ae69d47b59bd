"""Pods that wait for an autoscaler."""

from __future__ import annotations

from typing import Any

from podfit.vpa.admission.decide.gate import gate_patch, must_wait
from podfit.vpa.model.changing.gate import GATE, REQUIRES


def pod(requires: str = "true", **spec: Any) -> dict[str, Any]:
    return {"metadata": {"annotations": {REQUIRES: requires}}, "spec": spec}


def test_a_pod_waits_only_if_it_requests_it_has_no_node_and_no_autoscaler() -> None:
    assert must_wait(pod(), None)
    assert not must_wait(pod("false"), None)
    assert not must_wait(pod(), {"metadata": {}})
    assert not must_wait(pod(nodeName="n"), None)


def test_the_gate_is_added_once() -> None:
    assert gate_patch(pod()) == [{"op": "add", "path": "/spec/schedulingGates", "value": [{"name": GATE}]}]
    others = gate_patch(pod(schedulingGates=[{"name": "x"}]))
    assert others == [{"op": "add", "path": "/spec/schedulingGates/-", "value": {"name": GATE}}]
    assert gate_patch(pod(schedulingGates=[{"name": GATE}])) == []
