"""The resize conditions of pods, and the metrics that count them."""

from __future__ import annotations

from tests.unit.agent.lab import Lab

from podfit.agent.pods.conditions import Conditions


def counts(lab: Lab) -> tuple[float, float]:
    value = lab.core.metrics.registry.get_sample_value
    pending = value("kubelet_pod_pending_resizes", {"reason": "deferred"}) or 0.0
    return pending, value("kubelet_pod_in_progress_resizes") or 0.0


async def test_every_change_of_a_condition_is_counted(lab: Lab) -> None:
    conditions, record = Conditions(lab.core.metrics, lab.clock), lab.record()
    assert conditions.refuse(record, "Deferred", "no room") and counts(lab) == (1.0, 0.0)
    assert not conditions.refuse(record, "Deferred", "no room") and counts(lab) == (1.0, 0.0)
    assert conditions.grant(record) and counts(lab) == (0.0, 1.0)
    conditions.begin(record)
    assert conditions.fail(record, "refused") == 1 and counts(lab) == (0.0, 1.0)
    assert conditions.complete(record) == 1 and counts(lab) == (0.0, 0.0)
    assert conditions.complete(record) is None and not conditions.clear_pending(record)


async def test_conditions_of_the_api_are_restored_and_counted(lab: Lab) -> None:
    record = lab.record()
    shown = {"type": "PodResizePending", "status": "True", "reason": "Deferred", "observedGeneration": 1}
    record.pod["status"]["conditions"] = [shown]
    Conditions(lab.core.metrics, lab.clock).restore(record)
    assert record.resize.pending is not None and counts(lab) == (1.0, 0.0)
