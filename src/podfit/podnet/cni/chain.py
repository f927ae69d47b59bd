"""A chain of CNI plugins on one pod: ADD in order, CHECK in order, DEL in reverse, with results passed on.

The inputs of ADD (configuration, runtime configuration, last result) are stored with the pod: DEL gets the same, even
if the folder has changed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from ipaddress import ip_interface
from pathlib import Path
from typing import Any

import msgspec

from podfit.api.quantity import Quantity, QuantityError
from podfit.podnet.attachment import PodRequest
from podfit.podnet.cni.config import NetworkConfig, version_of
from podfit.podnet.cni.plugins import find_plugin, run_plugin
from podfit.podnet.failures import NetworkFailure

PORT_MAPPINGS, BANDWIDTH = "portMappings", "bandwidth"
_INTERFACE = "eth0"
_RATES = {"ingress": "kubernetes.io/ingress-bandwidth", "egress": "kubernetes.io/egress-bandwidth"}
_BURST = (1 << 32) - 1
_CHECKED, _DELETED_WITH_RESULT = (0, 4, 0), (0, 4, 0)
"""The versions that introduced CHECK, and the result of ADD as input of DEL."""


async def add(
    config: NetworkConfig, request: PodRequest, namespace: str, folders: Sequence[Path], kept: dict[str, Any]
) -> tuple[str, ...]:
    """Connects the pod and returns its addresses. `kept` is filled with the inputs of DEL, even if a plugin fails."""
    wanted = runtime_config(request)
    kept.update(config=msgspec.to_builtins(config), wanted=wanted, folders=[str(folder) for folder in folders])
    result: dict[str, Any] | None = None
    for number, plugin in enumerate(config.plugins, start=1):
        body = plugin_config(config, plugin, wanted, result)
        find_plugin(plugin["type"], folders)
        kept["ran"] = number
        result = await run_plugin("ADD", body, _parameters(request, namespace), folders)
        kept["result"] = result
    return addresses(result or {})


async def check(request: PodRequest, namespace: str, kept: Mapping[str, Any]) -> None:
    """Runs CHECK, if it is supported and enabled. Raises NetworkFailure if a plugin finds the pod's network changed."""
    config = msgspec.convert(kept["config"], NetworkConfig)
    if config.disable_check or version_of(config.version) < _CHECKED:
        return
    for plugin in config.plugins:
        body = plugin_config(config, plugin, kept["wanted"], kept.get("result"))
        await run_plugin("CHECK", body, _parameters(request, namespace), _folders(kept))


async def delete(request: PodRequest, namespace: str, kept: Mapping[str, Any]) -> None:
    """Disconnects the pod, also after an ADD that failed halfway. All plugins are called, then the first failure is
    raised."""
    if not kept.get("ran"):
        return
    config = msgspec.convert(kept["config"], NetworkConfig)
    result = kept.get("result") if version_of(config.version) >= _DELETED_WITH_RESULT else None
    failures: list[NetworkFailure] = []
    for plugin in reversed(config.plugins[: kept["ran"]]):
        body = plugin_config(config, plugin, kept["wanted"], result)
        try:
            await run_plugin("DEL", body, _parameters(request, namespace), _folders(kept))
        except NetworkFailure as error:
            failures.append(error)
    if failures:
        raise failures[0]


def _folders(kept: Mapping[str, Any]) -> tuple[Path, ...]:
    return tuple(Path(folder) for folder in kept["folders"])


def plugin_config(
    config: NetworkConfig, plugin: Mapping[str, Any], wanted: Mapping[str, Any], result: Mapping[str, Any] | None
) -> dict[str, Any]:
    """A plugin's own configuration with the runtime's additions, of which it gets only its declared capabilities."""
    body = {**plugin, "name": config.name, "cniVersion": config.version}
    capable = plugin.get("capabilities") or {}
    given = {name: value for name, value in wanted.items() if capable.get(name) is True}
    if given:
        body["runtimeConfig"] = given
    if result is not None:
        body["prevResult"] = result
    return body


def runtime_config(request: PodRequest) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if request.ports:
        found[PORT_MAPPINGS] = [
            {
                "hostPort": port.host_port,
                "containerPort": port.container_port,
                "protocol": port.protocol.lower(),
                **({"hostIP": port.host_ip} if port.host_ip else {}),
            }
            for port in request.ports
        ]
    rates: dict[str, int] = {}
    for direction, annotation in _RATES.items():
        if annotation in request.annotations:
            rates[f"{direction}Rate"] = _rate(annotation, request.annotations[annotation])
            rates[f"{direction}Burst"] = _BURST
    if rates:
        found[BANDWIDTH] = rates
    return found


def _rate(annotation: str, text: str) -> int:
    try:
        return Quantity.parse(text).value
    except QuantityError as error:
        raise NetworkFailure(f"annotation {annotation}={text}: {error}") from error


def _parameters(request: PodRequest, namespace: str) -> dict[str, str]:
    names = {
        "IgnoreUnknown": "1",
        "K8S_POD_NAMESPACE": request.namespace,
        "K8S_POD_NAME": request.name,
        "K8S_POD_INFRA_CONTAINER_ID": request.uid,
        "K8S_POD_UID": request.uid,
    }
    return {
        "CNI_CONTAINERID": request.uid,
        "CNI_NETNS": namespace,
        "CNI_IFNAME": _INTERFACE,
        "CNI_ARGS": ";".join(f"{name}={value}" for name, value in names.items()),
    }


def addresses(result: Mapping[str, Any]) -> tuple[str, ...]:
    """The pod's addresses, in the plugins' order. Results of versions before 0.3.0 have one per IP family."""
    listed = [address.get("address") for address in result.get("ips") or () if isinstance(address, dict)]
    listed += [(result.get(old) or {}).get("ip") for old in ("ip4", "ip6")]
    try:
        found = tuple(dict.fromkeys(str(ip_interface(text).ip) for text in listed if text))
    except ValueError as error:
        raise NetworkFailure(f"the CNI plugins gave an address that is none: {error}") from error
    if not found:
        raise NetworkFailure("the CNI plugins gave the pod no address")
    return found
