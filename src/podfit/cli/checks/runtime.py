"""A container runtime for --runtime cri: does it answer, which one is it, and is it set up so that pods can run?"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from podfit.cli.checks import Finding, fail, ok, warn
from podfit.compose_runtimes import CONTAINERD

if TYPE_CHECKING:
    from podfit.cri import CriClient

RESTARTED = "then restart the runtime"


async def runtime_checks(endpoint: str) -> AsyncIterator[Finding]:
    """Without an endpoint the usual one is tried, and its absence is no fault: podfit has a runtime of its own."""
    try:
        from podfit.cri import BadEndpoint, CriClient, CriError
        from podfit.cri import api_pb2 as api
        from podfit.cri.configuration import configuration
    except ImportError as error:
        if endpoint:
            yield fail("container runtime", f"CRI cannot be spoken: {error}", "pip install 'podfit[cri]'")
        return
    asked = endpoint or CONTAINERD
    if not endpoint and not Path(asked.removeprefix("unix://")).exists():
        yield ok("container runtime", f"none at {asked}: only needed for --runtime cri")
        return
    try:
        client = CriClient(asked)
    except BadEndpoint as error:
        yield fail(
            "container runtime", str(error), "--container-runtime-endpoint unix:///run/containerd/containerd.sock"
        )
        return
    try:
        version = await client.ask("Version", api.VersionRequest(version="v1"), 5.0)
        status = await client.ask("Status", api.StatusRequest(verbose=True), 5.0)
    except CriError as error:
        yield _unreachable(asked, error.code, error.details)
        await client.close()
        return
    yield ok("container runtime", f"{version.runtime_name} {version.runtime_version} at {asked}")
    for finding in _conditions(status):
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
    advice = {
        "RuntimeReady": ("runtime ready", "read the runtime's log (journalctl -u containerd)"),
        "NetworkReady": (
            "CNI",
            "install the plugins (apt install containernetworking-plugins) and a configuration in /etc/cni/net.d; "
            "pods in the host's network run without",
        ),
    }
    found = []
    for condition in status.status.conditions:
        if condition.type in advice:
            name, help = advice[condition.type]
            why = f"{condition.reason}: {condition.message}".strip(": ")
            found.append(ok(name, "ready") if condition.status else fail(name, why or "not ready", help))
    return found


async def _cgroup_driver(client: CriClient, configuration: dict[str, Any]) -> Finding:
    from podfit.cri import CriError
    from podfit.cri import api_pb2 as api

    name = "cgroup driver"
    try:
        answer = await client.ask("RuntimeConfig", api.RuntimeConfigRequest(), 5.0)
        return ok(name, "systemd" if answer.linux.cgroup_driver == api.SYSTEMD else "cgroupfs")
    except CriError as error:
        if error.code != "UNIMPLEMENTED":
            return fail(name, error.details, "read the runtime's log")
    if not configuration:
        advice = "podfit assumes cgroupfs: make the runtime use it, or update it"
        return warn(name, "the runtime neither answers RuntimeConfig nor shows its configuration", advice)
    from podfit.cri.configuration import uses_systemd

    return ok(name, f"{'systemd' if uses_systemd(configuration) else 'cgroupfs'} (in the runtime's configuration)")


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
