"""Builds launch.json from the pod's and the container's configuration: decisions are made here, and carried out by the
keeper's child."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from podfit.agent.runtimes.cgroups import Cgroups
from podfit.agent.runtimes.process.keeper.linux import CAPABILITIES, DEFAULT_CAPABILITIES
from podfit.agent.runtimes.process.setup.images import HOST, PAUSE, Image
from podfit.agent.runtimes.process.setup.users import identify
from podfit.agent.runtimes.values import CannotRun, ContainerConfig, PodConfig, Security, hidden_folder

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def launch_spec(
    container_id: str,
    pod: PodConfig,
    config: ContainerConfig,
    image: Image,
    cgroups: Cgroups,
    group: str,
    folder: Path,
    network: str,
) -> dict[str, Any]:
    """`network`: the path of the pod's network namespace, "" for the host's network."""
    security = config.security
    identity = identify(security, image.user, image.rootfs)
    return {
        "id": container_id,
        "pod_uid": pod.uid,
        "folder": str(folder),
        "hidden": str(hidden_folder(folder.parents[2])),
        "rootfs": image.rootfs,
        "argv": list(argv(config, image)),
        "environment": _environment(pod, config, image, identity.home),
        "working_dir": config.working_dir or image.working_dir or "/",
        "mounts": _mounts(pod, config, folder.parent.parent),
        "log_file": str(config.log_file),
        "log_max_bytes": config.log_max_bytes,
        "log_max_files": config.log_max_files,
        "tty": config.tty,
        "stdin": config.stdin,
        "stdin_once": config.stdin_once,
        "uid": identity.user.uid,
        "gid": identity.user.gid,
        "groups": list(identity.user.groups),
        "privileged": security.privileged,
        "capabilities": sorted(capabilities(security)),
        "no_new_privileges": security.no_new_privileges,
        "read_only_root": security.read_only_root,
        "seccomp": "" if security.privileged else security.seccomp,
        "oom_score_adj": config.oom_score_adj,
        "hostname": pod.hostname,
        "host_pid": pod.host_pid,
        "host_ipc": pod.host_ipc,
        "network": network,
        "sysctls": {name: value for name, value in pod.sysctls.items() if name.startswith("kernel.")},
        "targeted": bool(config.target),
        "share_pid": pod.share_process_namespace and not pod.host_pid,
        "cgroup_joins": cgroups.join_files(group),
        "cgroup_pins": cgroups.pin_files(group),
        "cgroup_views": cgroups.views(group),
        "oom_file": cgroups.oom_file(group),
        "procs_file": cgroups.procs_file(group),
    }


def confine_devices(spec: dict[str, Any], cgroups: Cgroups, group: str) -> None:
    """Restricts the devices that the container may open. If this machine cannot do that, the container may not create
    device files either."""
    if not spec["privileged"] and not cgroups.confine_devices(group):
        spec["capabilities"] = [name for name in spec["capabilities"] if name != "MKNOD"]


def argv(config: ContainerConfig, image: Image) -> tuple[str, ...]:
    """Kubernetes' rule: a command replaces the image's entrypoint and arguments. The image `host` has no entrypoint:
    arguments are run, and without any the container waits. If `host` replaces an absent image, the entrypoint is
    unknown: arguments that begin with a program are run."""
    if config.command:
        return config.command + config.args
    if image.entrypoint:
        return image.entrypoint + (config.args or image.command)
    if image.rootfs:
        if found := config.args or image.command:
            return found
        raise CannotRun("no command specified: neither the pod nor its image names a program", "CreateContainerError")
    if config.args and (config.image == HOST or shutil.which(config.args[0], path=PATH)):
        return config.args
    return PAUSE


def capabilities(security: Security) -> frozenset[str]:
    def names(given: tuple[str, ...]) -> set[str]:
        plain = {name.upper().removeprefix("CAP_") for name in given}
        return set(CAPABILITIES) if "ALL" in plain else plain

    added, dropped = names(security.add_capabilities), names(security.drop_capabilities)
    if "ALL" in {name.upper() for name in security.drop_capabilities}:
        return frozenset(added)
    return frozenset((DEFAULT_CAPABILITIES | added) - dropped)


def _environment(pod: PodConfig, config: ContainerConfig, image: Image, home: str) -> dict[str, str]:
    environment = {"PATH": PATH, "HOSTNAME": pod.hostname, "HOME": home}
    environment |= dict(entry.split("=", 1) for entry in image.environment if "=" in entry)
    if config.tty:
        environment["TERM"] = "xterm"
    return environment | dict(config.environment)


def _mounts(pod: PodConfig, config: ContainerConfig, data_dir: Path) -> list[list[object]]:
    mounts: list[list[object]] = [
        [str(item.host_path), item.container_path, item.read_only, item.sub_path] for item in config.mounts
    ]
    taken = {str(mount[1]).rstrip("/") for mount in mounts}
    for name, text in (("resolv.conf", pod.resolv_conf), ("hosts", pod.etc_hosts), ("hostname", pod.hostname + "\n")):
        if text and f"/etc/{name}" not in taken:
            file = data_dir / "pods" / f"{pod.uid}.{name}"
            if not file.exists():
                file.write_text(text)
            mounts.append([str(file), f"/etc/{name}", False, ""])
    return mounts
