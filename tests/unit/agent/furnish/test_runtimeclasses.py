"""Which runtime a pod runs on, by its RuntimeClass."""

from __future__ import annotations

from typing import Any, cast

import pytest

from podfit.agent.furnish.runtimeclasses import NO_MACHINES, RuntimeClasses
from podfit.agent.runtimes.values import RuntimeFailure
from podfit.client.rest import Client

NOBODY = cast(Client, None)
MACHINE: dict[str, Any] = {"spec": {"virtualMachine": {"name": "guest"}}}


async def test_a_virtual_machine_without_a_class_is_not_run_as_a_container() -> None:
    with pytest.raises(RuntimeFailure) as caught:
        await RuntimeClasses(NOBODY).handler(MACHINE)
    assert str(caught.value) == NO_MACHINES


async def test_the_fake_runtime_can_simulate_virtual_machines() -> None:
    assert await RuntimeClasses(NOBODY, simulated=True).handler(MACHINE) == ""
