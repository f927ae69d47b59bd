"""Records why containers of one pod wait, as the pod's status reports it: reason and message by container."""

from __future__ import annotations


class WaitingReasons:
    __slots__ = ("_reasons",)

    def __init__(self) -> None:
        self._reasons: dict[str, tuple[str, str]] = {}

    def set(self, container: str, reason: str, message: str) -> None:
        self._reasons[container] = (reason, message)

    def clear(self, container: str, reason: str = "") -> None:
        """`reason`: only if the container waits for this reason."""
        if not reason or self.reason(container) == reason:
            self._reasons.pop(container, None)

    def get(self, container: str) -> tuple[str, str] | None:
        return self._reasons.get(container)

    def reason(self, container: str) -> str:
        found = self._reasons.get(container)
        return found[0] if found is not None else ""
