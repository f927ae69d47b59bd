"""The network of VM pods: none, or QEMU's own user network, in which a guest reaches out and nobody reaches in."""

from __future__ import annotations

from collections.abc import Callable

from podfit.streaming.ends import ByteStream, StreamFailure
from podfit.vm.machines.definition import NO_NETWORK, USER_NETWORK, Network
from podfit.vm.records import Sandbox

NONE, USER = "none", "user"


def mac_of(sandbox: Sandbox) -> str:
    """A locally administered address that stays the same for the pod."""
    digits = sandbox.id[:10]
    return "52:" + ":".join(digits[at : at + 2] for at in range(0, 10, 2))


class Networks:
    def __init__(self, mode: str = USER) -> None:
        self._mode = mode

    async def connect(self, sandbox: Sandbox) -> str:
        """Connects the pod and returns its address, "" if it has none that others can reach."""
        return ""

    async def disconnect(self, sandbox: Sandbox) -> None:
        return

    def of(self, sandbox: Sandbox) -> Network:
        return Network(NO_NETWORK if self._mode == NONE else USER_NETWORK, mac_of(sandbox))

    def cmdline(self, sandbox: Sandbox) -> str:
        """What the guest's kernel is told of its name and address."""
        return f"podfit.hostname={sandbox.config.hostname}" if sandbox.config.hostname else ""

    async def dial(self, sandbox: Sandbox, port: int) -> ByteStream:
        """A connection to a port of the guest. Raises StreamFailure."""
        raise StreamFailure("the pod has no address: its VM is in QEMU's own network")

    def door(self, sandbox: Sandbox) -> tuple[Callable[[], None], Callable[[], None]]:
        """Enters and leaves the pod's network namespace in the calling thread."""
        return (lambda: None), (lambda: None)
