"""A limit that the kernel refuses is reported by container, resource and amount, not by the path of a cgroup."""

from __future__ import annotations

import errno

import pytest

from podfit.agent.actuation.actuator import _failed
from podfit.agent.decide.resize.actuate import GROW, SetContainer, SetPod, Step
from podfit.agent.decide.resize.refusals import refusal
from podfit.agent.runtimes.cgroups.files import refused
from podfit.agent.runtimes.values import UNLIMITED, LimitsChange, RuntimeFailure, WriteRefused

PATH = "/sys/fs/cgroup/kubepods/burstable/pod1/memory.max"


@pytest.mark.parametrize(
    ("step", "words"),
    [
        (
            SetContainer("memory", GROW, "app", LimitsChange(memory_bytes=64 << 20), {}),
            'cannot set memory limit of container "app" to 64Mi: Invalid argument (memory.max)',
        ),
        (
            SetContainer("memory", GROW, "app", LimitsChange(memory_bytes=UNLIMITED), {}),
            'cannot set memory limit of container "app" to no limit: Invalid argument (memory.max)',
        ),
        (
            SetContainer("cpu", GROW, "app", LimitsChange(cpu_shares=102, cpu_quota_us=20_000), {}),
            'cannot set CPU of container "app" to a limit of 200m and 102 shares: Invalid argument (memory.max)',
        ),
        (
            SetPod("memory", GROW, LimitsChange(memory_bytes=1 << 30)),
            "cannot set memory limit of pod to 1Gi: Invalid argument (memory.max)",
        ),
    ],
)
def test_a_rejection_names_the_limit_and_the_amount(step: Step, words: str) -> None:
    error = refused(OSError(errno.EINVAL, "Invalid argument", PATH), "/kubepods/burstable/pod1")
    assert isinstance(error, WriteRefused)
    assert refusal(step, error) == words and str(_failed([(step, error)])) == words


def test_other_failures_of_the_runtime_keep_their_words() -> None:
    step = SetContainer("cpu", GROW, "app", LimitsChange(cpu_shares=2), {})
    assert refusal(step, RuntimeFailure("the keeper does not answer")).endswith("2 shares: the keeper does not answer")
