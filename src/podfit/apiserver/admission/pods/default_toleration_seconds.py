"""DefaultTolerationSeconds: pods tolerate a node that is not ready or unreachable for five minutes."""

from __future__ import annotations

from typing import Any

from podfit.apiserver.admission.base import CREATE, UPDATE, Attributes, Plugin, spec_of

NOT_READY = "node.kubernetes.io/not-ready"
UNREACHABLE = "node.kubernetes.io/unreachable"


class DefaultTolerationSeconds(Plugin):
    name = "DefaultTolerationSeconds"

    def __init__(self, not_ready_s: int = 300, unreachable_s: int = 300) -> None:
        self._seconds = ((NOT_READY, not_ready_s), (UNREACHABLE, unreachable_s))

    def handles(self, attrs: Attributes) -> bool:
        return attrs.resource == ("", "pods") and not attrs.subresource and attrs.operation in (CREATE, UPDATE)

    async def admit(self, attrs: Attributes) -> None:
        assert attrs.object is not None
        spec = spec_of(attrs.object)
        given = spec.get("tolerations") or []
        missing = [
            {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds}
            for key, seconds in self._seconds
            if not any(_covers(toleration, key) for toleration in given)
        ]
        if missing:
            attrs.object["spec"] = {**spec, "tolerations": [*given, *missing]}


def _covers(toleration: dict[str, Any], key: str) -> bool:
    return toleration.get("key", "") in ("", key) and toleration.get("effect", "") in ("", "NoExecute")
