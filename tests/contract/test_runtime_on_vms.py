"""The agent's runtime contract on real VMs: each test runs here or is listed with the reason why it cannot apply to a
VM.
"""

from __future__ import annotations

import functools
import inspect
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from podfit.agent.runtimes.values import RUNNING, ContainerState

pytest.register_assert_rewrite("tests.contract.test_runtime")

from tests.contract import test_runtime as contract  # noqa: E402
from tests.contract.test_runtime import Bench  # noqa: E402
from tests.vms import GUEST, guest_archive, needs_vms, serving  # noqa: E402

pytestmark = needs_vms

_COMMAND = "a guest runs what its image says, not the container's command: nothing ends by itself or prints"
_ONE = "a VM pod has one VM at a time"
_WHOLE = "a VM has whole vCPUs and at least 64 MiB; sizes of VMs are in tests/e2e/vm"
_KERNEL = "what a guest's processes use is its own kernel's affair; shrinking guests is in tests/e2e/vm"
NOT_FOR_VMS = {
    "a_container_is_created_then_runs_then_has_ended": _COMMAND,
    "the_exit_code_is_the_programs": _COMMAND,
    "a_missing_program_cannot_run": _COMMAND,
    "a_container_that_handles_sigterm_ends_within_its_grace_period": _COMMAND,
    "a_container_is_stopped_by_the_signal_of_its_pod": _COMMAND,
    "output_goes_to_the_log_in_cri_format": _COMMAND,
    "attach_shows_what_the_container_says_from_now_on": _COMMAND,
    "a_container_that_ended_does_not_hold_its_pods_cpu": _COMMAND,
    "attempts_of_a_container_are_kept_oldest_first": _COMMAND,
    "limits_are_read_back_as_they_were_written": _WHOLE,
    "an_update_changes_what_it_names_and_nothing_else": _WHOLE,
    "memory_goes_up_and_down_many_times": _WHOLE,
    "a_container_may_not_have_more_cpu_than_its_pod": _WHOLE,
    "memory_protection_set_by_others_is_kept": _WHOLE,
    "a_container_never_swaps": _WHOLE,
    "a_memory_limit_below_usage_is_refused_and_kills_no_process": _KERNEL,
    "a_refused_memory_limit_leaves_cpu_alone_too": _KERNEL,
    "waiting_for_memory_ends_when_the_container_lets_go": _KERNEL,
    "a_container_out_of_memory_is_killed_and_reports_it": _KERNEL,
    "usage_is_read_from_the_kernel": _KERNEL,
    "a_container_that_uses_much_memory_is_noticed_and_one_that_uses_little_is_not": _KERNEL,
    "a_container_that_is_held_back_keeps_its_limits": _KERNEL,
    "only_what_runs_in_a_pod_that_is_alive_has_usages": _ONE,
    "pods_run_on_without_the_agent_and_are_found_again": _ONE,
    "stopping_a_pod_ends_its_containers_and_keeps_their_story": _ONE,
}
QUICK = {
    "a_container_that_is_deaf_to_sigterm_is_killed_after_its_grace",
    "cpus_can_be_set_between_creation_and_start",
    "nothing_is_made_in_a_pod_that_is_being_stopped",
    "calls_may_be_repeated",
    "missing_objects_are_not_found",
    "an_invalid_image_name_cannot_be_pulled",
    "an_image_that_a_container_can_run_on_has_a_status",
}
CLAIMS = {
    name.removeprefix("test_"): claim
    for name, claim in vars(contract).items()
    if name.startswith("test_") and inspect.iscoroutinefunction(claim)
}


@dataclass
class VmBench(Bench):
    vms: Any = None
    """The VM runtime itself."""

    async def state(self, container_id: str) -> ContainerState:
        """Includes QEMU's process, which the agent does not know: its cgroup counts more than the guest's memory."""
        state = await super().state(container_id)
        known = self.vms.records.containers.get(container_id)
        running = known is not None and state.state == RUNNING
        return replace(state, pid=self.vms.lives.machine(known).pid()) if running else state


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    from podfit.agent.runtimes.cri.runtime import CriRuntime

    node = f"podfit-test-{uuid.uuid4().hex[:8]}"
    async with serving(tmp_path, guest_archive(tmp_path)) as (vms, _):
        endpoint = f"unix://{tmp_path}/vm.sock"
        made = VmBench("vm", tmp_path, lambda: CriRuntime(endpoint, node, tmp_path / "data", f"/{node}"), image=GUEST)
        made.vms = vms
        await made.open()
        yield made
        await made.close()


def _on_vms(claim: Callable[[Bench], Awaitable[None]]) -> Callable[[Bench], Awaitable[None]]:
    @functools.wraps(claim)
    async def on_vms(bench: Bench) -> None:
        await claim(bench)

    return on_vms


for _name, _claim in CLAIMS.items():
    if _name not in NOT_FOR_VMS:
        _test = _on_vms(_claim)
        globals()[f"test_{_name}"] = _test if _name in QUICK else pytest.mark.slow(_test)


def test_every_claim_that_no_vm_keeps_is_one_of_the_contract() -> None:
    assert CLAIMS.keys() >= NOT_FOR_VMS.keys() | QUICK and not QUICK & NOT_FOR_VMS.keys()
