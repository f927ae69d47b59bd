"""Resolves a pod's RuntimeClass to the runtime handler it names, which selects how the runtime runs the pod, or which
of several runtimes does."""

from __future__ import annotations

from podfit.agent.pods.record import PodRecord
from podfit.agent.runtimes.values import RuntimeFailure
from podfit.api.objects import Object
from podfit.api.registry.kinds import kind_named
from podfit.api.status import ApiError
from podfit.client.rest import Client
from podfit.client.transport import Unreachable

RUNTIME_CLASS = kind_named("RuntimeClass")
NO_MACHINES = 'a virtual machine needs a RuntimeClass whose handler runs VMs, such as "vm" of podfit up --vm'


class RuntimeClasses:
    def __init__(self, client: Client, simulated: bool = False) -> None:
        """`simulated`: the runtime runs nothing, so it accepts every handler."""
        self._client, self._simulated = client, simulated

    async def resolve(self, record: PodRecord) -> None:
        """Sets the pod's handler. The RuntimeClass is read whenever a sandbox is created; that is rare, so no watch is
        needed."""
        record.class_handler = await self.handler(record.pod)

    async def handler(self, pod: Object) -> str:
        """The handler's name; "" is the default."""
        name = pod["spec"].get("runtimeClassName") or ""
        if not name:
            if pod["spec"].get("virtualMachine") and not self._simulated:
                raise RuntimeFailure(NO_MACHINES)
            return ""
        try:
            found = await self._client.find(RUNTIME_CLASS, "", name)
        except (ApiError, Unreachable) as error:
            raise RuntimeFailure(f"failed to get RuntimeClass {name}: {error}") from error
        if found is None:
            raise RuntimeFailure(f'runtimeclass.node.k8s.io "{name}" not found')
        return str(found.get("handler") or "")
