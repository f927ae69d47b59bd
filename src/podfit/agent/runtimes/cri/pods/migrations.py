"""Moves a running container to or from another node, if the runtime supports it: VMs of podfit vm-runtime.

Other runtimes answer UNIMPLEMENTED; their containers stay where they are.
"""

from __future__ import annotations

import base64
from typing import Any

from podfit.agent.runtimes.cri.failures import failure
from podfit.agent.runtimes.cri.messages import configs
from podfit.agent.runtimes.cri.messages.subpaths import SubPaths
from podfit.agent.runtimes.cri.state.inventory import Inventory
from podfit.agent.runtimes.values import ContainerConfig, RuntimeFailure, RuntimeSilent
from podfit.cri import CriError

MOVE_S = 900.0
"""Longer than the time that the runtime itself allows for a migration."""
_CANNOT = "the container runtime of this node cannot move containers"


class Migrations:
    """Migrates containers. Each call raises RuntimeFailure if the container cannot move; the message says why."""

    def __init__(self, inventory: Inventory, subpaths: SubPaths) -> None:
        self._inventory, self._subpaths = inventory, subpaths

    async def _ask(self, method: str, timeout_s: float = 120.0, **message: Any) -> dict[str, Any]:
        try:
            return await self._inventory.client.migrate(method, timeout_s, **message)
        except CriError as error:
            if error.code == "UNIMPLEMENTED":
                raise RuntimeFailure(_CANNOT) from error
            if error.unreached:
                raise RuntimeSilent(error.words) from error
            raise failure(error) from error

    # --- on the source node
    async def offer(self, container_id: str) -> dict[str, Any]:
        found: dict[str, Any] = (await self._ask("Offer", id=container_id))["offer"]
        return found

    async def move(self, container_id: str, place: dict[str, Any]) -> None:
        """Moves the container. Returns when it runs on the target."""
        await self._ask("Move", MOVE_S, id=container_id, place=place)

    async def stay(self, container_id: str) -> None:
        await self._ask("Stay", id=container_id)

    # --- on the target node
    async def prepare(self, uid: str, config: ContainerConfig, offer: dict[str, Any]) -> dict[str, Any]:
        """Prepares for a container in the pod's sandbox, which is already running. The container keeps its ID."""
        inventory, pod = self._inventory, self._inventory.pod(uid)
        config.log_file.parent.mkdir(parents=True, exist_ok=True)
        mounts = self._subpaths.resolve(uid, config.name, config.attempt, config.mounts)
        message = configs.container(config, pod.config, inventory.node, mounts, "")
        encoded = base64.b64encode(message.SerializeToString()).decode()
        answer = await self._ask("Prepare", sandbox=pod.sandbox_id, config=encoded, offer=offer)
        place: dict[str, Any] = answer["place"]
        # The container may have been on this node before.
        inventory.removed.pop(str(offer["id"]), None)
        try:
            await inventory.refresh(str(offer["id"]))
        except CriError as error:
            raise failure(error) from error
        return place

    async def adopt(self, container_id: str) -> None:
        await self._ask("Adopt", id=container_id)
