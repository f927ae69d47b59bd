"""Persisted states that are impossible on this machine."""

from __future__ import annotations

import pytest

from podfit.agent.cpus.decide.sets import parse
from podfit.agent.cpus.decide.state import STATIC, CpuState
from podfit.agent.cpus.decide.validate import contradiction


def state(shared: str, **pods: str) -> CpuState:
    return CpuState(STATIC, parse(shared), {uid: {"c": parse(cpus)} for uid, cpus in pods.items()})


def test_a_state_that_divides_the_machine_is_believed() -> None:
    assert contradiction(state("0-1", a="2", b="3"), parse("0-3"), parse("0")) == ""


@pytest.mark.parametrize(
    ("kept", "words"),
    [
        (state("1", a="2-3"), 'not all reserved cpus: "0" are present in defaultCpuSet: "1"'),
        (state("0-2", a="2-3"), 'pod: a, container: c cpuset: "2-3" overlaps with default cpuset "0-2"'),
        (state("0-1", a="2"), "doesn't match with CPUs in state"),
        (state("0-1", a="2-4"), "doesn't match with CPUs in state"),
        (state("0-1", a="2-3", b="3"), "two pods are assigned the same CPUs"),
    ],
)
def test_a_state_that_contradicts_the_machine_or_itself_is_not(kept: CpuState, words: str) -> None:
    assert words in contradiction(kept, parse("0-3"), parse("0"))
