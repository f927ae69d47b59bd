"""Creates a pod's volumes on the node's disk: emptyDir, hostPath, and files from objects. `files` writes them."""

from __future__ import annotations

import base64
import contextlib
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from podfit.agent.config import AgentConfig
from podfit.agent.decide.resize.kernel import memory_volume_bytes
from podfit.agent.furnish.volumes.downward import field_value, resource_value
from podfit.agent.furnish.volumes.files import Files, give, replace_files
from podfit.agent.furnish.volumes.followed import references
from podfit.agent.furnish.volumes.objects import MissingObject, ReferencedObjects
from podfit.agent.runtimes.values import hidden_folder
from podfit.api.objects import Object
from podfit.api.quantity import Quantity, units_of
from podfit.api.resize.states import MEMORY, all_containers
from podfit.kit.clock import Clock
from podfit.kit.process.oserrors import system_words

_MADE_OF_OBJECTS = ("configMap", "secret", "projected", "downwardAPI")


class BadVolume(Exception):
    """Volumes cannot be created now; `messages` has one for each, worded as in Kubernetes."""

    def __init__(self, messages: Sequence[str]) -> None:
        super().__init__("; ".join(messages))
        self.messages = messages


@dataclass(slots=True)
class _Made:
    """Records when and from what a pod's files were last written."""

    at: float
    shown: tuple[Any, ...]
    """The pod's own fields that the files contain."""
    failed: bool = True


class Volumes:
    def __init__(
        self,
        config: AgentConfig,
        objects: ReferencedObjects,
        host_ip: str,
        allocatable: Callable[[], Mapping[str, Quantity]],
        clock: Clock,
    ) -> None:
        self._config, self._objects, self._allocatable, self._clock = config, objects, allocatable, clock
        self.host_ip = host_ip
        self._made: dict[str, _Made] = {}

    def folder(self, uid: str) -> Path:
        return self._config.pods_dir / uid

    def hosts_file(self, uid: str) -> Path:
        """The containers' /etc/hosts."""
        return self.folder(uid) / "etc-hosts"

    def path(self, uid: str, volume: Object) -> Path:
        if volume.get("hostPath"):
            return Path(volume["hostPath"]["path"])
        return self.folder(uid) / "volumes" / str(volume["name"])

    async def prepare(self, pod: Object, ips: tuple[str, ...]) -> None:
        """Creates or refreshes all volumes; idempotent. Raises MissingObject."""
        uid = pod["metadata"]["uid"]
        if not _any_made_of_objects(pod):
            await self._prepare(uid, pod, ips)
            return
        made = self._made[uid] = _Made(self._clock.monotonic(), _shown(pod, ips))
        self._objects.followed.use(uid, references(pod))
        self._objects.followed.mark_read(uid)
        await self._prepare(uid, pod, ips)
        made.failed = False

    async def _prepare(self, uid: str, pod: Object, ips: tuple[str, ...]) -> None:
        failures: list[str] = []
        for volume in pod["spec"].get("volumes") or ():
            try:
                await self._make(uid, pod, volume, ips)
            except (MissingObject, OSError) as problem:
                failures.append(f'MountVolume.SetUp failed for volume "{volume.get("name")}" : {system_words(problem)}')
            except (LookupError, TypeError, ValueError) as problem:
                # The manifest was not validated by an API server.
                failures.append(f"MountVolume.SetUp failed: malformed: {problem!r}")
        if failures:
            raise BadVolume(failures)

    async def _make(self, uid: str, pod: Object, volume: Object, ips: tuple[str, ...]) -> None:
        path = self.path(uid, volume)
        if volume.get("hostPath"):
            own = hidden_folder(self._config.data_dir.absolute())
            if path.resolve().is_relative_to(own.resolve()):
                raise MissingObject(f"hostPath {path} is in podfit's own data directory")
            _host_path(path, volume["hostPath"].get("type") or "")
        elif made_of_objects(volume):
            replace_files(path, await self._files(pod, volume, ips), _group(pod))
        elif is_image(volume):
            return  # the runtime mounts it
        elif "emptyDir" in volume or len(volume) == 1:
            self._empty_dir(path, pod, volume.get("emptyDir") or {})
        else:
            kind = next(key for key in volume if key != "name")
            raise MissingObject(f'volume "{volume["name"]}" has unsupported type {kind}')

    def due_s(self, pod: Object, ips: tuple[str, ...]) -> float | None:
        """The seconds until the pod's files should be refreshed; None if their sources do not change."""
        if not _any_made_of_objects(pod):
            return None
        uid = pod["metadata"]["uid"]
        made = self._made.get(uid)
        if made is None or self._objects.followed.is_stale(uid) or made.shown != _shown(pod, ips):
            return 0.0
        look_again = max(0.0, made.at + self._config.refresh_s - self._clock.monotonic())
        if made.failed:
            return look_again
        renewal = self._objects.renewal_s(uid)
        if self._objects.followed.connected(uid):
            return renewal
        return look_again if renewal is None else min(look_again, renewal)

    def release(self, uid: str) -> None:
        """Stops refreshing the pod's files."""
        if self._made.pop(uid, None) is not None:
            self._objects.release(uid)

    def clear_memory(self, pod: Object, container: Object) -> None:
        """Empties the memory-backed volumes that the container mounts: their files count against its limit."""
        used = {mount["name"] for mount in container.get("volumeMounts") or ()}
        for volume in pod["spec"].get("volumes") or ():
            if volume["name"] in used and (volume.get("emptyDir") or {}).get("medium") == "Memory":
                _empty(self.path(pod["metadata"]["uid"], volume))

    def remove(self, uid: str) -> None:
        self.release(uid)
        folder = self.folder(uid)
        remove_memory_volumes(folder)
        shutil.rmtree(folder, ignore_errors=True)

    def known(self) -> list[str]:
        root = self._config.pods_dir
        return [path.name for path in root.iterdir() if path.is_dir()] if root.is_dir() else []

    def _empty_dir(self, path: Path, pod: Object, source: Mapping[str, Any]) -> None:
        if path.is_dir():
            return
        path.mkdir(parents=True)
        path.chmod(0o777)
        if source.get("medium") == "Memory":
            allocatable = self._allocatable()
            node = allocatable[MEMORY].value if MEMORY in allocatable else 0
            size = memory_volume_bytes(pod, units_of(source.get("sizeLimit") or 0), node)
            # Without permission to mount (tests, rootless), a plain folder is used.
            subprocess.run(
                ["mount", "-t", "tmpfs", "-o", f"size={size or '50%'},mode=0777", "tmpfs", str(path)],
                check=False,
                capture_output=True,
            )
        if (group := _group(pod)) is not None:
            give(path, group, 0o2777)

    async def _files(self, pod: Object, volume: Object, ips: tuple[str, ...]) -> Files:
        if volume.get("projected"):
            mode = volume["projected"].get("defaultMode", 0o644)
            files: Files = {}
            missing: list[str] = []
            for source in volume["projected"].get("sources") or ():
                try:
                    files.update(await self._source(pod, source, mode, ips))
                except MissingObject as problem:
                    missing.append(str(problem))
            if missing:
                raise MissingObject(f"[{', '.join(missing)}]" if len(missing) > 1 else missing[0])
            return files
        kind = next(key for key in _MADE_OF_OBJECTS if volume.get(key))
        source = dict(volume[kind])
        if kind == "secret" and "secretName" in source:
            source["name"] = source["secretName"]
        return await self._source(pod, {kind: source}, source.get("defaultMode", 0o644), ips)

    async def _source(self, pod: Object, source: Object, mode: int, ips: tuple[str, ...]) -> Files:
        namespace = pod["metadata"].get("namespace") or "default"
        if projection := source.get("configMap"):
            found = await self._objects.config_map(namespace, projection["name"])
            if found is None and not projection.get("optional"):
                raise MissingObject(f'configmap "{projection["name"]}" not found')
            data = {key: text.encode() for key, text in ((found or {}).get("data") or {}).items()}
            data |= {key: base64.b64decode(text) for key, text in ((found or {}).get("binaryData") or {}).items()}
            return _picked(data, projection, mode, "configmap references non-existent config key")
        if projection := source.get("secret"):
            found = await self._objects.secret(namespace, projection["name"])
            if found is None and not projection.get("optional"):
                raise MissingObject(f'secret "{projection["name"]}" not found')
            data = {key: base64.b64decode(text) for key, text in ((found or {}).get("data") or {}).items()}
            return _picked(data, projection, mode, "references non-existent secret key")
        if projection := source.get("serviceAccountToken"):
            account = pod["spec"].get("serviceAccountName") or "default"
            token = await self._objects.token(namespace, account, pod, projection)
            grouped = (pod["spec"].get("securityContext") or {}).get("fsGroup") is not None
            return {projection["path"]: (token.text.encode(), 0o600 if grouped else mode)}
        if projection := source.get("downwardAPI"):
            return {item["path"]: self._downward(pod, item, mode, ips) for item in projection.get("items") or ()}
        return {}

    def _downward(self, pod: Object, item: Object, mode: int, ips: tuple[str, ...]) -> tuple[bytes, int]:
        if item.get("fieldRef"):
            text = field_value(pod, item["fieldRef"]["fieldPath"], self.host_ip, self._config.node_name, ips)
        else:
            text = resource_value(pod["spec"], "", item["resourceFieldRef"], self._allocatable())
        return text.encode(), int(item.get("mode", mode))


def remove_memory_volumes(folder: Path) -> None:
    """Unmounts everything below `folder`. Mount points are removed: a volume whose folder exists is not created
    again."""
    for mounted in _mounted_below(folder):
        subprocess.run(["umount", "-l", str(mounted)], check=False, capture_output=True)
        with contextlib.suppress(OSError):
            mounted.rmdir()


def _group(pod: Object) -> int | None:
    """The group that owns the pod's volumes, besides root."""
    group: int | None = (pod["spec"].get("securityContext") or {}).get("fsGroup")
    return group


def made_of_objects(volume: Object) -> bool:
    """Whether the volume's files come from the API; containers can only read them."""
    return any(volume.get(kind) for kind in _MADE_OF_OBJECTS)


def is_image(volume: Object) -> bool:
    return volume.get("image") is not None


def _any_made_of_objects(pod: Object) -> bool:
    return any(made_of_objects(volume) for volume in pod["spec"].get("volumes") or ())


def _shown(pod: Object, ips: tuple[str, ...]) -> tuple[Any, ...]:
    """All fields used by the downward API that may change while the pod runs."""
    meta = pod["metadata"]
    sizes = [container.get("resources") for container in all_containers(pod["spec"])]
    return meta.get("labels"), meta.get("annotations"), sizes, ips


def _picked(data: dict[str, bytes], source: Mapping[str, Any], mode: int, lacking: str) -> Files:
    if not source.get("items"):
        return {key: (content, mode) for key, content in data.items()}
    files: Files = {}
    for item in source["items"]:
        if item["key"] in data:
            files[item["path"]] = (data[item["key"]], int(item.get("mode", mode)))
        elif not source.get("optional"):
            raise MissingObject(f"{lacking}: {item['key']}")
    return files


_HOST_PATHS: Mapping[str, tuple[Callable[[Path], bool], str]] = {
    "Directory": (Path.is_dir, "a directory"),
    "File": (Path.is_file, "a file"),
    "Socket": (Path.is_socket, "a socket file"),
    "CharDevice": (Path.is_char_device, "a character device"),
    "BlockDevice": (Path.is_block_device, "a block device"),
}


def _host_path(path: Path, kind: str) -> None:
    if kind == "DirectoryOrCreate" and not path.exists():
        path.mkdir(parents=True)
    elif kind == "FileOrCreate" and not path.exists():
        try:
            path.touch()
        except OSError as error:
            raise MissingObject(f"open {path}: {str(error.strerror).lower()}") from error
    is_one, words = _HOST_PATHS.get(kind.removesuffix("OrCreate"), (None, ""))
    if is_one is not None and not is_one(path):
        raise MissingObject(f"hostPath type check failed: {path} is not {words}")


def _empty(path: Path) -> None:
    for entry in path.iterdir() if path.is_dir() else ():
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry, ignore_errors=True)
        else:
            entry.unlink(missing_ok=True)


def _mounted_below(folder: Path) -> list[Path]:
    try:
        lines = Path("/proc/self/mounts").read_text().splitlines()
    except OSError:
        return []
    points = [Path(line.split(" ")[1].replace("\\040", " ")) for line in lines]
    return sorted((mount_point for mount_point in points if folder in mount_point.parents), reverse=True)
