"""Builds CRI messages from the agent's configuration: sandboxes, containers, resources. Pure: values in, values out."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from podfit.agent.runtimes.cri.messages.amounts import resources
from podfit.agent.runtimes.cri.messages.confinement import container_security, number, policy
from podfit.agent.runtimes.values import ContainerConfig, Limits, Mount, PodConfig
from podfit.cri import api_pb2 as api

NODE = "podfit.dev/node"
"""The label of everything that belongs to one agent: several may use the same runtime."""
POD_CONFIG, CONTAINER_CONFIG = "podfit.dev/pod-config", "podfit.dev/container-config"
UID, POD_NAME, NAMESPACE = "io.kubernetes.pod.uid", "io.kubernetes.pod.name", "io.kubernetes.pod.namespace"
CONTAINER_NAME, ATTEMPT = "io.kubernetes.container.name", "io.kubernetes.container.restartCount"
_encoder = msgspec.json.Encoder(enc_hook=str)


def _path(kind: type, value: object) -> object:
    return kind(value)


_pods: msgspec.json.Decoder[PodConfig] = msgspec.json.Decoder(PodConfig, dec_hook=_path)


class PersistedConfig(msgspec.Struct, frozen=True):
    """Data of a container that the runtime does not report and the agent needs after a restart."""

    image: str
    limits: Limits
    log_file: str
    log_max_bytes: int
    log_max_files: int
    tty: bool
    annotations: dict[str, str]
    stop_signal: str = ""


def kept_pod(annotations: Mapping[str, str]) -> PodConfig | None:
    try:
        return _pods.decode(annotations[POD_CONFIG])
    except (KeyError, msgspec.DecodeError):
        return None


def kept_container(annotations: Mapping[str, str]) -> PersistedConfig | None:
    try:
        return msgspec.json.decode(annotations[CONTAINER_CONFIG], type=PersistedConfig)
    except (KeyError, msgspec.DecodeError):
        return None


# --- sandboxes


def sandbox(pod: PodConfig, node: str, attempt: int, cgroup_parent: str) -> api.PodSandboxConfig:
    labels = {UID: pod.uid, POD_NAME: pod.name, NAMESPACE: pod.namespace, NODE: node}
    return api.PodSandboxConfig(
        metadata=api.PodSandboxMetadata(name=pod.name, uid=pod.uid, namespace=pod.namespace, attempt=attempt),
        # A pod in the host's network has the host's name: it shares the host's UTS namespace.
        hostname="" if pod.host_network else pod.hostname,
        log_directory=str(pod.log_folder),
        dns_config=dns(pod.resolv_conf),
        port_mappings=[
            api.PortMapping(
                protocol=port.protocol,
                container_port=port.container_port,
                host_port=port.host_port,
                host_ip=port.host_ip,
            )
            for port in pod.host_ports
        ],
        labels={**pod.labels, **labels},
        annotations={**pod.annotations, POD_CONFIG: _encoder.encode(pod).decode()},
        linux=api.LinuxPodSandboxConfig(
            cgroup_parent=cgroup_parent,
            sysctls=dict(pod.sysctls),
            security_context=_sandbox_security(pod),
            resources=resources(pod.limits),
        ),
    )


def _sandbox_security(pod: PodConfig) -> api.LinuxSandboxSecurityContext:
    security = pod.security
    return api.LinuxSandboxSecurityContext(
        namespace_options=namespaces(pod),
        privileged=security.privileged,
        run_as_user=number(security.uid),
        run_as_group=number(security.gid) if security.uid is not None else None,
        supplemental_groups=list(security.groups),
        supplemental_groups_policy=policy(security),
        seccomp=api.SecurityProfile(profile_type=api.SecurityProfile.RuntimeDefault),
    )


def namespaces(pod: PodConfig) -> api.NamespaceOption:
    return api.NamespaceOption(
        network=api.NODE if pod.host_network else api.POD,
        ipc=api.NODE if pod.host_ipc else api.POD,
        pid=api.NODE if pod.host_pid else api.POD if pod.share_process_namespace else api.CONTAINER,
    )


def dns(resolv_conf: str) -> api.DNSConfig | None:
    """The sandbox's DNS settings. With None, the runtime copies the host's resolv.conf."""
    if not resolv_conf:
        return None
    found = api.DNSConfig()
    for word, *rest in (line.split() for line in resolv_conf.splitlines() if line.strip()):
        if word == "nameserver":
            found.servers.extend(rest[:1])
        elif word == "search":
            found.searches.extend(rest)
        elif word == "options":
            found.options.extend(rest)
    return found


# --- containers


def _mount(mount: Mount) -> api.Mount:
    made = api.Mount(container_path=mount.container_path, readonly=mount.read_only)
    if mount.image_id:
        made.image.image, made.image_sub_path = mount.image_id, mount.sub_path
    else:
        made.host_path = str(mount.host_path)
    return made


def container(
    config: ContainerConfig, pod: PodConfig, node: str, mounts: list[Mount], target_id: str
) -> api.ContainerConfig:
    kept = PersistedConfig(
        config.image,
        config.limits,
        str(config.log_file),
        config.log_max_bytes,
        config.log_max_files,
        config.tty,
        dict(config.annotations),
        config.stop_signal,
    )
    labels = {UID: pod.uid, POD_NAME: pod.name, NAMESPACE: pod.namespace, NODE: node, CONTAINER_NAME: config.name}
    annotations = {ATTEMPT: str(config.attempt), CONTAINER_CONFIG: msgspec.json.encode(kept).decode()}
    return api.ContainerConfig(
        metadata=api.ContainerMetadata(name=config.name, attempt=config.attempt),
        image=api.ImageSpec(image=config.image_id or config.image, user_specified_image=config.image),
        command=list(config.command),
        args=list(config.args),
        working_dir=config.working_dir,
        envs=[api.KeyValue(key=key, value=value.encode()) for key, value in config.environment.items()],
        mounts=[_mount(mount) for mount in mounts],
        devices=[
            api.Device(container_path=device.container_path, host_path=str(device.host_path), permissions="mrw")
            for device in config.devices
        ],
        labels=labels,
        annotations={**config.annotations, **annotations},
        log_path=log_path(config.log_file, pod.log_folder),
        stdin=config.stdin,
        stdin_once=config.stdin_once,
        tty=config.tty,
        stop_signal=config.stop_signal.replace("+", "PLUS").replace("-", "MINUS") or "RUNTIME_DEFAULT",
        linux=api.LinuxContainerConfig(
            resources=resources(config.limits, config.oom_score_adj),
            security_context=container_security(config.security, namespaces(pod), target_id),
        ),
    )


def log_path(file: Path, folder: Path) -> str:
    """The path of the log. Runtimes require it below the sandbox's folder."""
    return str(file.relative_to(folder)) if file.is_relative_to(folder) else file.name
