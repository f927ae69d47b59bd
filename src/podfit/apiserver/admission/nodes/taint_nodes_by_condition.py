"""TaintNodesByCondition: a new Node is tainted as not ready until the node lifecycle controller removes the taint."""

from __future__ import annotations

from podfit.apiserver.admission.base import CREATE, Attributes, Plugin

NOT_READY = "node.kubernetes.io/not-ready"


class TaintNodesByCondition(Plugin):
    name = "TaintNodesByCondition"

    def handles(self, attrs: Attributes) -> bool:
        return attrs.resource == ("", "nodes") and not attrs.subresource and attrs.operation == CREATE

    async def admit(self, attrs: Attributes) -> None:
        assert attrs.object is not None
        spec = attrs.object.setdefault("spec", {})
        taints = spec.get("taints") or []
        if not any(taint.get("key") == NOT_READY and taint.get("effect") == "NoSchedule" for taint in taints):
            spec["taints"] = [*taints, {"key": NOT_READY, "effect": "NoSchedule"}]
