"""Runs static pods: their manifests are in a folder of this node, they need no API server, and mirror pods represent
them in the API."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import yaml

from podfit.agent.core import Core
from podfit.agent.decide.resize.allocate import CONFIG_SOURCE, CRITICAL_PRIORITY, MIRROR
from podfit.agent.roster.roster import Roster
from podfit.agent.roster.updates import PodUpdates
from podfit.agent.runtimes.base import Runtime
from podfit.api.objects import Object
from podfit.api.pods.pod_references import referenced
from podfit.api.registry.kinds import POD
from podfit.api.resize.states import all_containers
from podfit.api.status import ApiError
from podfit.client.rest import Client
from podfit.client.transport import Unreachable
from podfit.kit.clock import rfc3339_micro
from podfit.kit.files.folderwatch import WHOLE_FILES, FolderWatch

log = logging.getLogger(__name__)

_AGAIN_S = 2.0
"""The delay before mirrors that the API server rejected are retried."""
HASH, SEEN = "kubernetes.io/config.hash", "kubernetes.io/config.seen"


class StaticPods:
    def __init__(
        self, core: Core, client: Client, roster: Roster, updates: PodUpdates, node_uid: Callable[[], str]
    ) -> None:
        """`node_uid`: the uid of the Node in the API, "" if there is none."""
        self._config, self._clock, self._queue = core.config, core.clock, core.queue
        self._client, self._roster, self._updates, self._node_uid = client, roster, updates, node_uid
        self._stamps: dict[Path, tuple[int, int]] = {}
        self._uids: dict[Path, str] = {}
        self._leaving: dict[str, str] = {}
        """Terminating pods, uid → namespace/name: the next pod of that name waits for them."""
        self._mirrors_leaving: dict[str, Object] = {}
        """Their mirrors, which are deleted when the pods are gone."""
        self._running: set[str] = set()
        self._unmirrored: set[str] = set()
        self._orphans: dict[str, Object] = {}
        """Mirrors whose file is gone, or that a client deletes: only the node can release them."""
        self._watch: FolderWatch | None = None

    async def run(self) -> None:
        """Scans after every change of the folder, of a mirror, or of a pod for which another one waits."""
        folder = self._config.static_dir
        assert folder is not None
        watch = FolderWatch(folder, WHOLE_FILES)
        self._watch = watch
        timer: asyncio.Task[None] | None = None
        try:
            while True:
                await self.scan()
                if (self._unmirrored or self._orphans) and (timer is None or timer.done()):
                    timer = asyncio.ensure_future(self._rescan_later())
                await watch.wait()
        finally:
            watch.close()
            if timer is not None:
                timer.cancel()

    def registered(self) -> None:
        """Called once the API has our Node: mirrors can be created."""
        self._wake()

    def _wake(self) -> None:
        """Triggers another scan."""
        if self._watch is not None:
            self._watch.wake()

    async def _rescan_later(self) -> None:
        await self._clock.sleep(_AGAIN_S)
        self._wake()

    async def adopt(self, runtime: Runtime) -> None:
        """The first scan: pods that were running before the agent started are adopted."""
        self._running = {state.config.uid for state in await runtime.pods()}
        self.check()
        self._running = set()

    async def scan(self) -> None:
        self.check()
        for uid, mirror in list(self._orphans.items()):
            del self._orphans[uid]
            await self._delete(mirror)
        for uid in list(self._unmirrored):
            await self._mirror(uid)

    def check(self) -> None:
        """Scans the folder; only files that changed are read."""
        found = self._files()
        for file in set(self._stamps) - found.keys():
            self._drop(file)
        for file, stamp in found.items():
            if self._stamps.get(file) != stamp and self._load(file):
                self._stamps[file] = stamp

    def _files(self) -> dict[Path, tuple[int, int]]:
        """The folder's files, except hidden ones, in order; time and size show whether a file has changed."""
        folder = self._config.static_dir
        assert folder is not None
        found = {}
        for file in sorted(folder.iterdir()) if folder.is_dir() else ():
            with suppress(FileNotFoundError):
                if not file.name.startswith(".") and file.is_file():
                    stat = file.stat()
                    found[file] = (stat.st_mtime_ns, stat.st_size)
        return found

    def _load(self, file: Path) -> bool:
        """Loads a manifest. False if it has to be loaded again later, because a pod of that name is still
        terminating."""
        try:
            pod = self._pod(yaml.safe_load(file.read_text()), file)
        except (OSError, yaml.YAMLError, AttributeError, KeyError, TypeError, ValueError) as error:
            log.error("static pod %s cannot be used: %s", file, error)
            self._drop(file)
            return True
        uid = pod["metadata"]["uid"]
        if self._uids.get(file) == uid:
            # The file was written again with the same text: the pod is the same.
            return True
        self._drop(file)
        if _full_name(pod) in self._leaving.values():
            return False
        self._uids[file] = uid
        self._unmirrored.add(uid)
        self._roster.add(pod, adopted=uid in self._running, static=True)
        return True

    def _drop(self, file: Path) -> None:
        self._stamps.pop(file, None)
        uid = self._uids.pop(file, None)
        record = self._roster.record(uid) if uid is not None else None
        if record is not None:
            if record.mirror is not None:
                self._mirrors_leaving[record.uid] = record.mirror
            self._leaving[record.uid] = _full_name(record.pod)
            self._roster.terminate_static(record)

    def on_removed(self, uid: str) -> None:
        """Called when the pod is gone: its mirror is deleted, and the next pod of its name may start."""
        if (mirror := self._mirrors_leaving.pop(uid, None)) is not None:
            self._orphans[mirror["metadata"]["uid"]] = mirror
        if self._leaving.pop(uid, None) is not None:
            self._wake()

    def _pod(self, manifest: Any, file: Path) -> Object:
        if not isinstance(manifest, dict) or manifest.get("kind") != "Pod" or not manifest["spec"]["containers"]:
            raise ValueError("not a Pod with containers")
        for container in all_containers(manifest["spec"]):
            if not (isinstance(container["name"], str) and isinstance(container["image"], str)):
                raise ValueError("a container without a name or an image")
        if resource := referenced(manifest):
            raise ValueError(f"static pods may not reference {resource}")
        meta = dict(manifest["metadata"])
        digest = hashlib.md5(f"{self._config.node_name}|{file}|{manifest}".encode(), usedforsecurity=False).hexdigest()
        meta["name"] = f"{meta['name']}-{self._config.node_name}"
        meta.setdefault("namespace", "default")
        meta["uid"] = digest
        meta["annotations"] = {
            **(meta.get("annotations") or {}),
            HASH: digest,
            SEEN: rfc3339_micro(self._clock.now()),
            CONFIG_SOURCE: "file",
        }
        spec = {
            "restartPolicy": "Always",
            "terminationGracePeriodSeconds": 30,
            "priority": CRITICAL_PRIORITY + 1000,
            **manifest["spec"],
            "nodeName": self._config.node_name,
        }
        for container in all_containers(spec):
            resources = container.get("resources") or {}
            for name, limit in (resources.get("limits") or {}).items():
                resources.setdefault("requests", {}).setdefault(name, limit)
        return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec, "status": {}}

    # --- mirrors
    async def _mirror(self, uid: str) -> None:
        record = self._roster.record(uid)
        if record is None or record.termination is not None:
            self._unmirrored.discard(uid)
            return
        owner = self._node_uid()
        if not owner:
            return
        meta = record.pod["metadata"]
        body: Object = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": meta["name"],
                "namespace": meta["namespace"],
                "labels": meta.get("labels") or {},
                "annotations": {**meta["annotations"], MIRROR: meta["uid"]},
                "ownerReferences": [self._owner(owner)],
            },
            "spec": {**record.pod["spec"], "tolerations": [{"operator": "Exists", "effect": "NoExecute"}]},
        }
        body["spec"].pop("priority", None)
        try:
            mirror: Object | None = await self._client.create(POD, body)
        except ApiError as error:
            if error.code != 409:
                log.warning("mirror of static pod %s: %s", meta["name"], error)
                return
            mirror = await self._existing(meta)
        except Unreachable as error:
            log.info("mirror of static pod %s: %s", meta["name"], error)
            return
        self._updates.set_mirror(record, mirror)
        if mirror is not None:
            self._unmirrored.discard(uid)
            self._queue.enqueue(uid)

    def _owner(self, uid: str) -> Object:
        """The owner reference to the Node: a node may only create pods that it owns."""
        return {"apiVersion": "v1", "kind": "Node", "name": self._config.node_name, "uid": uid, "controller": True}

    async def _existing(self, meta: Object) -> Object | None:
        """The existing mirror, if it shows this version and is not being deleted; any other is deleted first."""
        found = await self._client.find(POD, meta["namespace"], meta["name"])
        if found is not None and (_mirrored(found) != meta["uid"] or _is_terminating(found)):
            await self._delete(found)
            return None
        return found

    def mirror_changed(self, before: Object | None, after: Object | None) -> None:
        last = after if after is not None else before
        assert last is not None
        uid = _mirrored(last)
        record = self._roster.record(uid)
        if record is None or _is_terminating(after):
            if after is not None:
                self._orphans[after["metadata"]["uid"]] = after
            self._wake()
        if record is None:
            return
        self._updates.set_mirror(record, after)
        if after is None and record.termination is None:
            self._unmirrored.add(uid)
            self._wake()

    async def _delete(self, mirror: Object) -> None:
        meta = mirror["metadata"]
        options = {"gracePeriodSeconds": 0, "preconditions": {"uid": meta["uid"]}}
        try:
            await self._client.delete(POD, meta["namespace"], meta["name"], options)
        except (ApiError, Unreachable) as error:
            # 404, 409: the mirror is gone, or was replaced by another.
            if not isinstance(error, ApiError) or error.code not in (404, 409):
                log.warning("mirror %s: %s", meta["name"], error)
                self._orphans[meta["uid"]] = mirror


def _mirrored(mirror: Object) -> str:
    """The uid of the static pod that this mirror represents."""
    return str((mirror["metadata"].get("annotations") or {}).get(MIRROR, ""))


def _is_terminating(mirror: Object | None) -> bool:
    return mirror is not None and bool(mirror["metadata"].get("deletionTimestamp"))


def _full_name(pod: Object) -> str:
    meta = pod["metadata"]
    return f"{meta['namespace']}/{meta['name']}"
