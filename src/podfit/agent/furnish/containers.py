"""Builds the runtime configuration of pods and containers: commands, environment, mounts, user, limits, log files."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from podfit.agent.config import AgentConfig
from podfit.agent.decide.pod.oomscore import oom_score_adj
from podfit.agent.decide.pod.sysctls import normalized
from podfit.agent.decide.resize.allocate import clears_memory_volumes
from podfit.agent.furnish import netfiles
from podfit.agent.furnish.environment import Environment, expand_all, expand_whole
from podfit.agent.furnish.volumes.files import make_below
from podfit.agent.furnish.volumes.objects import MissingObject
from podfit.agent.furnish.volumes.volumes import BadVolume, Volumes, is_image, made_of_objects
from podfit.agent.pods.ledger import Ledger
from podfit.agent.pods.record import PodRecord
from podfit.agent.runtimes.values import ContainerConfig, Device, ImageState, Limits, Mount, PodConfig, Security
from podfit.api.objects import Object
from podfit.api.pods.machines import POWER, RUNNING, wanted_power
from podfit.api.pods.resources import is_sidecar
from podfit.kit.files.atomicfile import write_again
from podfit.kit.process.oserrors import system_words
from podfit.podnet.ports import PortMapping

NAME, NAMESPACE = "podfit.dev/pod-name", "podfit.dev/pod-namespace"


_LOCALHOST = "Localhost/"
_MALFORMED = (LookupError, TypeError, ValueError)
"""Errors that a malformed manifest may cause, which no API server has validated (static pods, other servers)."""


def _text(problem: Exception) -> str:
    return system_words(problem) if isinstance(problem, (MissingObject, OSError)) else f"malformed: {problem!r}"


class ConfigProblem(Exception):
    """The container cannot be configured; the message is its waiting reason."""

    def __init__(self, message: str, reason: str = "CreateContainerConfigError") -> None:
        super().__init__(message)
        self.reason = reason


class VolumeProblem(ConfigProblem):
    """Volumes cannot be created yet, each for the reason in one of `messages`; the container stays in creation."""

    def __init__(self, problem: BadVolume) -> None:
        super().__init__(str(problem))
        self.messages = problem.messages


class ContainerMaker:
    def __init__(
        self,
        config: AgentConfig,
        environment: Environment,
        volumes: Volumes,
        ledger: Ledger,
        image_status: Callable[[str], Awaitable[ImageState | None]],
        node_bytes: int,
        local_profiles: bool = False,
    ) -> None:
        """`local_profiles`: whether the runtime can load profiles from the node."""
        self._config, self._environment, self._volumes, self._ledger = config, environment, volumes, ledger
        self._image_status, self._node_bytes, self.local_profiles = image_status, node_bytes, local_profiles

    def pod_config(self, record: PodRecord, limits: Limits) -> PodConfig:
        spec = record.pod["spec"]
        meta = record.pod["metadata"]
        return PodConfig(
            uid=record.uid,
            name=record.name,
            namespace=record.namespace,
            qos=record.qos,
            limits=limits,
            hostname=netfiles.hostname(record.pod, self._config),
            log_folder=self.log_folder(record),
            host_network=bool(spec.get("hostNetwork")),
            host_pid=bool(spec.get("hostPID")),
            host_ipc=bool(spec.get("hostIPC")),
            share_process_namespace=bool(spec.get("shareProcessNamespace")),
            labels=dict(meta.get("labels") or {}),
            annotations={**(meta.get("annotations") or {}), NAME: record.name, NAMESPACE: record.namespace},
            resolv_conf=netfiles.resolv_conf(record.pod, self._config),
            host_ports=_host_ports(spec),
            sysctls=_sysctls(spec),
            handler=record.class_handler,
            security=pod_security(spec),
        )

    def log_folder(self, record: PodRecord) -> Path:
        return self._config.logs_dir / f"{record.namespace}_{record.name}_{record.uid}"

    async def mount(self, record: PodRecord) -> None:
        """Creates the pod's volumes, before anything else of the pod is created."""
        allocated = self._ledger.allocated(record.uid)
        await self._mount(record.sized(allocated).pod if allocated is not None else record.pod, ())

    async def _mount(self, pod: Object, ips: tuple[str, ...]) -> None:
        try:
            if self._config.on_disk:
                await self._volumes.prepare(pod, ips)
        except BadVolume as problem:
            raise VolumeProblem(problem) from problem

    def _with_profile(self, found: Security) -> Security:
        """Resolves a profile of the node to a file in its folder for profiles."""
        if not found.seccomp.startswith(_LOCALHOST):
            return found
        file = self._config.seccomp_dir.absolute() / found.seccomp.removeprefix(_LOCALHOST)
        return replace(found, seccomp=f"{_LOCALHOST}{file}")

    async def container_config(
        self, record: PodRecord, container: Object, attempt: int, limits: Limits
    ) -> ContainerConfig:
        allocated = self._ledger.allocated(record.uid)
        pod = record.sized(allocated).pod if allocated is not None else record.pod
        ips = record.state.ips if record.state is not None else ()
        await self._check_user(record, container)
        if not self.local_profiles:
            _check_profiles(record, container)
        await self._mount(pod, ips)
        try:
            environment = await self._environment.of(pod, container, ips)
            command = expand_all(container.get("command") or (), environment)
            args = expand_all(container.get("args") or (), environment)
        except (MissingObject, *_MALFORMED) as problem:
            raise ConfigProblem(_text(problem)) from problem
        if self._config.on_disk and container["name"] in record.restarting and clears_memory_volumes(record.pod):
            self._volumes.clear_memory(pod, container)
        name = container["name"]
        return ContainerConfig(
            name=name,
            attempt=attempt,
            image=container["image"],
            command=command,
            args=args,
            environment=environment,
            working_dir=container.get("workingDir") or "",
            mounts=(
                *self._mounts(record, container, environment),
                *self._message_mount(record, container, attempt),
                *self._hosts_mount(record, container, ips),
            ),
            devices=self._devices(record, container),
            limits=limits,
            log_file=self.log_file(record, name, attempt),
            log_max_bytes=self._config.log_max_bytes,
            log_max_files=self._config.log_max_files,
            oom_score_adj=oom_score_adj(pod, container, record.qos, self._node_bytes),
            tty=bool(container.get("tty")),
            stdin=bool(container.get("stdin")),
            stdin_once=bool(container.get("stdinOnce")),
            security=self._with_profile(security(pod["spec"], container)),
            stop_signal=(container.get("lifecycle") or {}).get("stopSignal") or "",
            target=container.get("targetContainerName") or "",
            annotations={POWER: power} if (power := wanted_power(pod)) != RUNNING else {},
        )

    async def _check_user(self, record: PodRecord, container: Object) -> None:
        """Enforces `runAsNonRoot`: refuses a container that would run as root, or whose user is unknown."""
        merged = {**(record.pod["spec"].get("securityContext") or {}), **(container.get("securityContext") or {})}
        if not merged.get("runAsNonRoot"):
            return
        who = f'(pod: "{record.who}", container: {container["name"]})'
        if merged.get("runAsUser") is not None:
            if int(merged["runAsUser"]) == 0:
                raise ConfigProblem(f"container's runAsUser breaks non-root policy {who}")
            return
        image = await self._image_status(container["image"])
        user = (image.user if image is not None else "").partition(":")[0] or "0"
        if user.isdecimal() and int(user) == 0:
            raise ConfigProblem(f"container has runAsNonRoot and image will run as root {who}")
        if not user.isdecimal():
            why = f"image has non-numeric user ({user}), cannot verify user is non-root"
            raise ConfigProblem(f"container has runAsNonRoot and {why} {who}")

    def log_file(self, record: PodRecord, name: str, attempt: int) -> Path:
        return self.log_folder(record) / name / f"{attempt}.log"

    def _devices(self, record: PodRecord, container: Object) -> tuple[Device, ...]:
        volumes = {declared["name"]: declared for declared in record.pod["spec"].get("volumes") or ()}
        found = []
        for device in container.get("volumeDevices") or ():
            volume = volumes.get(device["name"])
            if volume is None:
                into = f'to map into container "{container["name"]}"'
                raise ConfigProblem(f'cannot find volume "{device["name"]}" {into}')
            found.append(Device(self._volumes.path(record.uid, volume), device["devicePath"]))
        return tuple(found)

    def _mounts(self, record: PodRecord, container: Object, environment: dict[str, str]) -> list[Mount]:
        volumes = {declared["name"]: declared for declared in record.pod["spec"].get("volumes") or ()}
        mounts = []
        for mount in container.get("volumeMounts") or ():
            volume = volumes.get(mount["name"])
            if volume is None:
                into = f'to mount into container "{container["name"]}"'
                raise ConfigProblem(f'cannot find volume "{mount["name"]}" {into}')
            host, sub = self._volumes.path(record.uid, volume), _sub_path(mount, environment)
            if is_image(volume):
                image_id = record.images[container["name"], volume["image"]["reference"]]
                mounts.append(Mount(host, mount["mountPath"], True, sub, image_id))
                continue
            if sub:
                self._prepare(host, sub, f'volumeMount "{mount["name"]}" of container "{container["name"]}"')
            read_only = bool(mount.get("readOnly")) or made_of_objects(volume)
            mounts.append(Mount(host, mount["mountPath"], read_only, sub))
        return mounts

    def _prepare(self, volume: Path, sub: str, whose: str) -> None:
        if not self._config.on_disk:
            return
        try:
            make_below(volume, sub)
        except (OSError, ValueError) as problem:
            raise ConfigProblem(f"failed to prepare subPath for {whose}") from problem

    def _message_mount(self, record: PodRecord, container: Object, attempt: int) -> list[Mount]:
        if not self._config.on_disk:
            return []
        file = self.message_file(record, container["name"], attempt)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
        os.chmod(file, 0o666)
        return [Mount(file, container.get("terminationMessagePath") or "/dev/termination-log")]

    def message_file(self, record: PodRecord, name: str, attempt: int) -> Path:
        return self._volumes.folder(record.uid) / "containers" / name / f"message-{attempt}"

    def _hosts_mount(self, record: PodRecord, container: Object, ips: tuple[str, ...]) -> list[Mount]:
        """Mounts /etc/hosts with the pod's address. It is rewritten for each container, because a new sandbox has a new
        address."""
        if not self._config.on_disk or any(
            mount["mountPath"].rstrip("/") == "/etc/hosts" for mount in container.get("volumeMounts") or ()
        ):
            return []
        file = self._volumes.hosts_file(record.uid)
        ip = ips[0] if ips else self._volumes.host_ip
        write_again(file, netfiles.etc_hosts(record.pod, self._config, ip).encode(), 0o644, durable=False)
        return [Mount(file, "/etc/hosts")]


def _host_ports(spec: Object) -> tuple[PortMapping, ...]:
    """The host ports of a pod with its own network; a pod in the host's network listens on them itself."""
    if spec.get("hostNetwork"):
        return ()
    sidecars = [sidecar for sidecar in spec.get("initContainers") or () if is_sidecar(sidecar)]
    return tuple(
        PortMapping(int(port["hostPort"]), int(port["containerPort"]), port.get("protocol") or "TCP", _host_ip(port))
        for container in (*sidecars, *(spec.get("containers") or ()))
        for port in container.get("ports") or ()
        if port.get("hostPort")
    )


def _sysctls(spec: Object) -> dict[str, str]:
    listed = (spec.get("securityContext") or {}).get("sysctls") or ()
    return {normalized(variable["name"]): str(variable["value"]) for variable in listed}


def _host_ip(port: Object) -> str:
    """The host IP of a port; "" for any address."""
    ip = str(port.get("hostIP") or "")
    return "" if ip in ("0.0.0.0", "::") else ip


def _sub_path(mount: Object, environment: Mapping[str, str]) -> str:
    try:
        sub: str = mount.get("subPath") or expand_whole(mount.get("subPathExpr") or "", environment)
    except MissingObject as problem:
        raise ConfigProblem(str(problem)) from problem
    if sub.startswith("/"):
        raise ConfigProblem(f"error SubPath `{sub}` must not be an absolute path")
    if ".." in Path(sub).parts:
        raise ConfigProblem(f"unable to provision SubPath `{sub}`: must not contain '..'")
    return sub


def _check_profiles(record: PodRecord, container: Object) -> None:
    """Refuses a requested profile that cannot be applied: the container would otherwise run unconfined."""
    merged = {**(record.pod["spec"].get("securityContext") or {}), **(container.get("securityContext") or {})}
    for field, what in (("seccompProfile", "seccomp"), ("appArmorProfile", "AppArmor")):
        profile = merged.get(field)
        if profile is not None and profile.get("type") not in ("RuntimeDefault", "Unconfined"):
            name = profile.get("localhostProfile") or ""
            raise ConfigProblem(
                f'{what} profile "{name}" of type {profile.get("type") or "<none>"} is not supported: only '
                f'RuntimeDefault and Unconfined (pod: "{record.who}", container: {container["name"]})'
            )


def security(spec: dict[str, Any], container: Object) -> Security:
    pod, own = spec.get("securityContext") or {}, container.get("securityContext") or {}
    merged = {**pod, **own}
    capabilities = own.get("capabilities") or {}
    seccomp = _profile(merged.get("seccompProfile"))
    privileged = bool(own.get("privileged"))
    groups = [*(pod.get("supplementalGroups") or ()), *([pod["fsGroup"]] if pod.get("fsGroup") is not None else [])]
    return Security(
        uid=merged.get("runAsUser"),
        gid=merged.get("runAsGroup"),
        groups=tuple(int(group) for group in groups),
        strict_groups=pod.get("supplementalGroupsPolicy") == "Strict",
        privileged=privileged,
        add_capabilities=tuple(capabilities.get("add") or ()),
        drop_capabilities=tuple(capabilities.get("drop") or ()),
        no_new_privileges=own.get("allowPrivilegeEscalation") is not True and not privileged,
        read_only_root=bool(own.get("readOnlyRootFilesystem")),
        seccomp="" if seccomp == "Unconfined" else seccomp,
        apparmor=_profile(merged.get("appArmorProfile")),
        escalation=own.get("allowPrivilegeEscalation"),
        unmasked_proc=own.get("procMount") == "Unmasked",
    )


def pod_security(spec: dict[str, Any]) -> Security:
    """The security settings of the sandbox: it is privileged if any container is."""
    containers = (*(spec.get("initContainers") or ()), *(spec.get("containers") or ()))
    privileged = any((container.get("securityContext") or {}).get("privileged") for container in containers)
    return replace(security(spec, {}), privileged=privileged)


def _profile(profile: Object | None) -> str:
    kind = (profile or {}).get("type") or ""
    return f"{_LOCALHOST}{(profile or {}).get('localhostProfile') or ''}" if kind == "Localhost" else kind
