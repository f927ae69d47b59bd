"""Assigns every node its part of the cluster's pod range (`spec.podCIDR` and `podCIDRs`), permanently."""

from __future__ import annotations

from podfit.api.objects import Object
from podfit.api.registry.kinds import NODE
from podfit.api.status import ApiError
from podfit.client.rest import MERGE
from podfit.controllers.context import ControllerContext
from podfit.reconcile import DONE, Engine, Result


class NodeIpamController:
    name = "node-ipam-controller"

    def __init__(self, context: ControllerContext) -> None:
        self._context, self._blocks = context, context.pod_blocks
        self._held: dict[str, tuple[str, ...]] = {}
        """Ranges by node: those of its spec, or those just chosen for it."""
        self._waiting: set[str] = set()
        """Nodes without a free range."""
        # One worker: a node's range is in its spec before the next one is chosen.
        self._engine: Engine[str] = Engine(self.name, self._reconcile, workers=1, clock=context.clock)
        if self._blocks:
            self._nodes = context.cache(NODE)
            self._nodes.subscribe(self._changed)

    async def run(self) -> None:
        if self._blocks:
            await self._engine.run()

    def _changed(self, before: Object | None, after: Object | None) -> None:
        name = (after or before or {})["metadata"]["name"]
        if after is None:
            self._waiting.discard(name)
            self._reserve(name, ())
        elif ranges := ranges_of(after):
            self._reserve(name, ranges)
        else:
            self._engine.add(name)

    def _reserve(self, name: str, ranges: tuple[str, ...]) -> None:
        """Records a node's ranges, and enqueues nodes that wait for the released ones."""
        old = self._held.pop(name, ())
        if ranges:
            self._held[name] = ranges
        for blocks in self._blocks:
            for text in ranges:
                blocks.occupy(text)
            for text in old:
                blocks.release(text)
        if set(old) - set(ranges):
            for waiting in self._waiting:
                self._engine.add(waiting)

    async def _reconcile(self, name: str) -> Result:
        node = self._nodes.get("", name)
        if node is None or ranges_of(node):
            self._waiting.discard(name)
            return DONE
        chosen = self._held.get(name) or self._choose(name)
        if not chosen:
            if name not in self._waiting:
                self._waiting.add(name)
                message = f"Node {name} status is now: CIDRNotAvailable"
                self._context.recorder.record(node, "Normal", "CIDRNotAvailable", message)
            return DONE
        self._waiting.discard(name)
        change = {"spec": {"podCIDR": chosen[0], "podCIDRs": list(chosen)}}
        try:
            await self._context.client.patch(NODE, "", name, change, content_type=MERGE)
        except ApiError as error:
            if error.code != 404:
                raise
        return DONE

    def _choose(self, name: str) -> tuple[str, ...]:
        """Takes one block of each range; takes and returns none if a range has no free block."""
        taken = [(blocks, blocks.take()) for blocks in self._blocks]
        chosen = tuple(text for _, text in taken if text is not None)
        if len(chosen) == len(taken):
            self._held[name] = chosen
            return chosen
        for blocks, text in taken:
            if text is not None:
                blocks.release(text)
        return ()


def ranges_of(node: Object) -> tuple[str, ...]:
    spec = node.get("spec") or {}
    return tuple(spec.get("podCIDRs") or ()) or ((spec["podCIDR"],) if spec.get("podCIDR") else ())
