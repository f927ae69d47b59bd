"""Volume claims of pods: a claim that does not exist, or is being deleted, keeps its pod from every node.

Whether a claim has a volume does not matter: volumes are stored, and no controller binds them.
"""

from __future__ import annotations

from podfit.api.objects import Object

Key = tuple[str, str]


class Claims:
    def __init__(self) -> None:
        self.aware = False
        """Set by the component that updates this; otherwise no claim counts as missing."""
        self.version = 0
        """A counter that changes when a missing claim appears."""
        self._going: dict[Key, bool] = {}
        self._missed: set[Key] = set()

    def changed(self, before: Object | None, after: Object | None) -> None:
        meta = (after or before or {})["metadata"]
        key = (meta.get("namespace") or "", meta["name"])
        if after is None:
            self._going.pop(key, None)
            return
        self._going[key] = bool(meta.get("deletionTimestamp"))
        if key in self._missed and not self._going[key]:
            self._missed.discard(key)
            self.version += 1

    def refusal(self, pod: Object) -> str:
        """The reason why no node fits the pod, in Kubernetes' words; empty if all its claims exist."""
        volumes = (pod.get("spec") or {}).get("volumes")
        if not volumes or not self.aware:
            return ""
        namespace = pod["metadata"].get("namespace") or ""
        for volume in volumes:
            named = volume.get("persistentVolumeClaim")
            if named is None:
                continue
            key = (namespace, str(named.get("claimName") or ""))
            going = self._going.get(key)
            if going is False:
                continue
            self._missed.add(key)
            return f'persistentvolumeclaim "{key[1]}" ' + ("not found" if going is None else "is being deleted")
        return ""
