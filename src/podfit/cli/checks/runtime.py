"""Checks a container runtime for --runtime cri: whether it responds, its version, and whether it is set up to run
pods."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from podfit.cli.checks import Finding, fail, ok, warn
from podfit.cli.checks.network import INSTALL_PLUGINS, missing_plugin
from podfit.compose_runtimes import CONTAINERD
from podfit.kit.process.privileges import CAP_SYS_RESOURCE, has_capability

if TYPE_CHECKING:
    from podfit.cri import CriClient

RESTARTED = "then restart the runtime"
SYSTEMD = Path("/run/systemd/system")


async def runtime_checks(endpoint: str) -> AsyncIterator[Finding]:
    """Checks the runtime at the endpoint. If none is given, the default one is tried, and it may be missing, because
    podfit has a runtime of its own.
    """
    try:
        from podfit.cri import BadEndpoint, CriClient, CriError
        from podfit.cri import api_pb2 as api
        from podfit.cri.configuration import configuration
    except ImportError as error:
        if endpoint:
            yield fail("container runtime", f"CRI cannot be spoken: {error}", "pip install 'podfit[cri]'")
        return
    socket = endpoint or CONTAINERD
    if not endpoint and not Path(socket.removeprefix("unix://")).exists():
        yield ok("container runtime", f"none at {socket}: only needed for --runtime cri")
        return
    try:
        client = CriClient(socket)
    except BadEndpoint as error:
        yield fail(
            "container runtime", str(error), "--container-runtime-endpoint unix:///run/containerd/containerd.sock"
        )
        return
    try:
        version = await client.ask("Version", api.VersionRequest(version="v1"), 5.0)
        status = await client.ask("Status", api.StatusRequest(verbose=True), 5.0)
    except CriError as error:
        yield _unreachable(socket, error.code, error.details)
        await client.close()
        return
    yield ok("container runtime", f"{version.runtime_name} {version.runtime_version} at {socket}")
    for finding in (*_conditions(status), *_oom_scores(configuration(status))):
        yield finding
    yield await _cgroup_driver(client, configuration(status))
    yield await _sandbox_image(client, configuration(status))
    await client.close()


def _unreachable(endpoint: str, code: str, details: str) -> Finding:
    if code == "UNIMPLEMENTED":
        advice = 'remove "cri" from disabled_plugins in the runtime\'s configuration, ' + RESTARTED
        return fail("container runtime", f"{endpoint} does not serve CRI v1: {details}", advice)
    advice = "start it (systemctl start containerd), be root, or name its socket: --container-runtime-endpoint"
    return fail("container runtime", f"{endpoint} does not answer: {details}", advice)


def _conditions(status: Any) -> list[Finding]:
    found = []
    for condition in status.status.conditions:
        why = f"{condition.reason}: {condition.message}".strip(": ") or "not ready"
        if condition.type == "RuntimeReady":
            advice = "read the runtime's log (journalctl -u containerd)"
            found.append(ok("runtime ready", "ready") if condition.status else fail("runtime ready", why, advice))
        elif condition.type == "NetworkReady":
            found.append(_network(status, "" if condition.status else why))
    return found


def _network(status: Any, why: str) -> Finding:
    """Checks that CNI plugins exist: a runtime is ready without them, and pods would fail to start."""
    from podfit.cri.configuration import configuration

    shown = configuration(status, "cniconfig")
    if why:
        folder = shown.get("PluginConfDir") or "/etc/cni/net.d"
        advice = f"{INSTALL_PLUGINS} and a configuration in {folder}, such as the one in docs/runtimes.md"
        return fail("CNI", why, advice)
    configurations = [network.get("Config") or {} for network in shown.get("Networks") or ()]
    plugins = [plugin.get("Network") or {} for config in configurations for plugin in config.get("Plugins") or ()]
    kinds = [str(plugin.get("type")) for plugin in plugins]
    kinds += [str(plugin["ipam"]["type"]) for plugin in plugins if (plugin.get("ipam") or {}).get("type")]
    if lacking := missing_plugin(kinds, [Path(folder) for folder in shown.get("PluginDirs") or ()]):
        return fail("CNI", lacking, f"{INSTALL_PLUGINS}, or set bin_dir of the runtime to where they are, {RESTARTED}")
    return ok("CNI", "ready")


def _oom_scores(configuration: dict[str, Any]) -> list[Finding]:
    """Checks for CAP_SYS_RESOURCE: without it (in a container or a sandboxed VM) runc cannot set OOM scores."""
    if configuration.get("restrictOOMScoreAdj") is not False or has_capability(CAP_SYS_RESOURCE):
        return []
    advice = f"set restrict_oom_score_adj = true in the CRI plugin's configuration, {RESTARTED}"
    return [fail("oom_score_adj", "may not be lowered here (no CAP_SYS_RESOURCE): no pod can start", advice)]


async def _cgroup_driver(client: CriClient, configuration: dict[str, Any]) -> Finding:
    from podfit.cri import CriError
    from podfit.cri import api_pb2 as api

    name = "cgroup driver"
    try:
        answer = await client.ask("RuntimeConfig", api.RuntimeConfigRequest(), 5.0)
        return _driver(answer.linux.cgroup_driver == api.SYSTEMD)
    except CriError as error:
        if error.code != "UNIMPLEMENTED":
            return fail(name, error.details, "read the runtime's log")
    if not configuration:
        advice = "podfit assumes cgroupfs: make the runtime use it, or update it"
        return warn(name, "the runtime neither answers RuntimeConfig nor shows its configuration", advice)
    from podfit.cri.configuration import uses_systemd

    return _driver(uses_systemd(configuration), " (in the runtime's configuration)")


def _driver(systemd: bool, source: str = "") -> Finding:
    if systemd and not SYSTEMD.exists():
        advice = f"set SystemdCgroup = false in the runtime's configuration, {RESTARTED}"
        return fail("cgroup driver", f"systemd{source}, but systemd does not run on this machine", advice)
    return ok("cgroup driver", f"{'systemd' if systemd else 'cgroupfs'}{source}")


async def _sandbox_image(client: CriClient, configuration: dict[str, Any]) -> Finding:
    from podfit.cri import CriError
    from podfit.cri import api_pb2 as api

    name, image = "sandbox image", str(configuration.get("sandboxImage") or "")
    if not image:
        return ok(name, "the runtime's own choice")
    try:
        answer = await client.ask("ImageStatus", api.ImageStatusRequest(image=api.ImageSpec(image=image)), 5.0)
    except CriError as error:
        return fail(name, error.details, "read the runtime's log")
    if answer.HasField("image") and answer.image.id:
        return ok(name, f"{image} is here")
    advice = f"ctr -n k8s.io images pull {image}, or set sandbox_image to one that is here, {RESTARTED}"
    return warn(name, f"{image} is not here: the first pod waits until it is pulled", advice)
