"""Reasons why nodes do not fit, in Kubernetes' words."""

from __future__ import annotations

from podfit.scheduler.decide.fit.reasons import PLUGINS, WORDS, Code, available, insufficient, refusal


def test_reasons_are_counted_sorted_and_end_with_a_full_stop() -> None:
    counts = {"node(s) were unschedulable": 2, "Insufficient cpu": 1, "never": 0}
    assert available(3, counts) == "0/3 nodes are available: 1 Insufficient cpu, 2 node(s) were unschedulable."
    assert available(3, {}) == "0/3 nodes are available:"
    assert available(3, counts, "x") == "0/3 nodes are available: x."


def test_too_many_pods_is_worded_differently() -> None:
    assert (insufficient("pods"), insufficient("memory")) == ("Too many pods", "Insufficient memory")


def test_every_refusal_has_words_and_a_plugin() -> None:
    refusals = set(Code) - {Code.FITS, Code.NO_ROW}
    assert refusals - {Code.RESOURCES} == set(WORDS) and refusals == set(PLUGINS)


def test_the_whole_message_names_preemption() -> None:
    assert refusal("a.", "b") == "a. no new claims to deallocate, preemption: b"
