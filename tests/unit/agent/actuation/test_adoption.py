"""Pods that kept running without an agent: the ledger is compared with the kernel."""

from __future__ import annotations

from tests.unit.agent.lab import Lab

from podfit.agent.actuation.adoption import Adoption
from podfit.agent.pods.record import PodRecord
from podfit.agent.runtimes.values import LimitsChange


async def outside(lab: Lab, milli: int) -> None:
    """Another program, or an agent killed right afterwards, has set this CPU limit."""
    (state,) = await lab.runtime.pods()
    change = LimitsChange(cpu_shares=milli * 1024 // 1000, cpu_quota_us=milli * 100)
    await lab.runtime.update_pod("u", change)
    await lab.runtime.update_container(state.containers[0].id, change)


async def adopt(lab: Lab, record: PodRecord) -> None:
    resizing = lab.parts.resizing
    allocations = lab.built.allocation.allocations
    adoption = Adoption(lab.runtime, lab.ledger, allocations, resizing.actuator, resizing.restarts)
    (state,) = await lab.runtime.pods()
    await adoption.adopt(record.pod, state)


async def test_an_actuated_size_that_the_kernel_has_is_believed(lab: Lab) -> None:
    record = await lab.run()
    before = lab.ledger.actuated("u").containers
    await adopt(lab, record)
    assert lab.ledger.actuated("u").containers == before


async def test_an_actuated_size_that_the_kernel_lacks_is_replaced_by_the_kernels(lab: Lab) -> None:
    record = await lab.run()
    await outside(lab, 500)
    await adopt(lab, record)
    found = lab.ledger.actuated("u").containers["c"]
    assert (found["limits"]["cpu"], found["requests"]["cpu"]) == ("500m", "500m")
    assert found["requests"]["memory"] == "64Mi", "the kernel knows no memory requests"


async def test_a_step_that_was_applied_but_not_recorded_counts_as_allocated(lab: Lab) -> None:
    record = await lab.run()
    lab.grant(record, "200m")
    await outside(lab, 200)
    await adopt(lab, record)
    assert lab.ledger.actuated("u").containers["c"]["limits"]["cpu"] == "200m"


async def test_a_lost_allocation_is_restored(lab: Lab) -> None:
    record = await lab.run()
    lab.ledger.forget("u")
    await adopt(lab, record)
    allocated = lab.ledger.allocated("u")
    assert allocated is not None and allocated.containers["c"]["limits"] == {"cpu": "100m", "memory": "64Mi"}
