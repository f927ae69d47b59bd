"""Verdicts as values, and as they are read back from a condition."""

from __future__ import annotations

from podfit.api.resize.verdicts import Deferred, Infeasible, Shortage, Unknown, is_resize_infeasible, verdict_in


def test_a_verdict_is_read_back_from_its_condition() -> None:
    assert verdict_in({"reason": "Deferred", "message": "m"}) == Deferred(message="m")
    assert verdict_in({"reason": "Infeasible", "message": "m"}) == Infeasible(message="m")
    assert verdict_in({"reason": "Zzz"}) == Unknown("Zzz") and verdict_in({}) == Unknown()


def test_a_shortage_is_worded_as_kubernetes_words_it() -> None:
    short = Shortage("cpu", 300, 1880, 2000)
    assert short.reason == "OutOfcpu"
    assert short.message == "Node didn't have enough resource: cpu, requested: 300, used: 1880, capacity: 2000"


def test_an_infeasible_verdict_counts_for_the_generation_it_names() -> None:
    condition = {"type": "PodResizePending", "status": "True", "reason": "Infeasible", "observedGeneration": 2}
    assert is_resize_infeasible({"metadata": {"generation": 2}, "status": {"conditions": [condition]}})
    assert not is_resize_infeasible({"metadata": {"generation": 3}, "status": {"conditions": [condition]}})
