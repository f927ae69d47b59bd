"""Sizes that a virtual machine can have."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.resizing import holding, pod, room, verdict

from podfit.agent.decide.resize.allocate import NodePolicy, decide
from podfit.agent.runtimes.values import Machine
from podfit.api.resize.states import desired_of
from podfit.api.resize.verdicts import Granted, Infeasible


def test_a_vm_cannot_get_a_fraction_of_a_vcpu() -> None:
    limits = {"resources": {"requests": {"cpu": "500m", "memory": "1"}, "limits": {"cpu": "1500m", "memory": "1"}}}
    body = pod({"cpu": "500m", "memory": "1"}, container=limits)
    assert verdict(body, holding("1", "1"), room(4000, 1000)) == Granted()
    body["spec"]["runtimeClassName"] = "vm"
    refused = verdict(body, holding("1", "1"), room(4000, 1000))
    assert isinstance(refused, Infeasible) and "set it to 1 or 2" in refused.message
    body["spec"]["containers"][0]["resources"]["limits"]["cpu"] = "2"
    assert verdict(body, holding("1", "1"), room(4000, 1000)) == Granted()


def _vm(cpu: str, memory: str) -> Any:
    size = {"cpu": cpu, "memory": memory}
    return pod(size, container={"resources": {"requests": size, "limits": size}})


@pytest.mark.parametrize(
    ("size", "words"),
    [
        (("9", "300Mi"), "podfit.dev/vm-max-vcpus"),
        (("1", "5Gi"), "podfit.dev/vm-max-memory"),
        (("1", "3000Mi"), "podfit.dev/vm-slots"),
        (("1", "32Mi"), "the minimum is 64 MiB"),
        (("2500m", "300Mi"), "set it to 2 or 3"),
    ],
)
def test_a_size_that_a_running_vm_cannot_have_is_infeasible_and_says_what_to_set(
    size: tuple[str, str], words: str
) -> None:
    machines = {"c": Machine(boot_memory_mib=256, max_memory_mib=4096, max_vcpus=8, slots=1)}
    desired = desired_of(_vm(*size))
    before, plenty = holding("1", "256Mi"), room(100_000, 100 << 30)
    refused = decide(_vm(*size), desired, before, plenty, "Guaranteed", NodePolicy(), running_machines=machines)
    assert isinstance(refused, Infeasible) and words in refused.message


def test_a_vm_can_be_brought_to_its_very_maxima() -> None:
    machines = {"c": Machine(boot_memory_mib=256, max_memory_mib=1024, max_vcpus=4, slots=16)}
    body, plenty = _vm("4", "1Gi"), room(100_000, 100 << 30)
    before = holding("1", "256Mi")
    assert (
        decide(body, desired_of(body), before, plenty, "Guaranteed", NodePolicy(), running_machines=machines)
        == Granted()
    )
