"""Listening addresses of podfit's components. By default `podfit up` picks free ports."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Annotated

import typer

NodePort = Annotated[
    int,
    typer.Option(
        "--node-port",
        min=0,
        max=65535,
        help="The port of the first node's server; further nodes use the following ports. 0: any free ports.",
    ),
]
AgentPort = Annotated[
    int,
    typer.Option(
        "--port",
        min=0,
        max=65535,
        help="The port of the node's server; 0: any free port, also used if 10250 is in use.",
    ),
]
RecommenderAddress = Annotated[
    str,
    typer.Option(
        "--recommender-address", metavar="HOST:PORT", help="The address on which the recommender serves /metrics."
    ),
]
UpdaterAddress = Annotated[
    str,
    typer.Option("--updater-address", metavar="HOST:PORT", help="The address on which the updater serves /metrics."),
]
AdmissionAddress = Annotated[
    str,
    typer.Option(
        "--admission-address", metavar="HOST:PORT", help="The address on which the admission webhook serves /metrics."
    ),
]
WebhookPort = Annotated[
    int, typer.Option("--webhook-port", min=0, max=65535, help="The port of the admission webhook; 0: any free port.")
]

FailClosed = Annotated[
    bool,
    typer.Option("--webhook-failure-policy-fail", help="Reject new pods while the admission webhook does not respond."),
]
NoVpa = Annotated[bool, typer.Option("--no-vpa", help="Run without the vertical autoscaler.")]
VpaRecommender = Annotated[
    list[str] | None,
    typer.Option(
        "--vpa-recommender", metavar="FLAG=VALUE", help="A flag to pass to `podfit vpa recommender`; may be repeated."
    ),
]
VpaUpdater = Annotated[
    list[str] | None,
    typer.Option(
        "--vpa-updater", metavar="FLAG=VALUE", help="A flag to pass to `podfit vpa updater`; may be repeated."
    ),
]
VpaAdmission = Annotated[
    list[str] | None,
    typer.Option(
        "--vpa-admission", metavar="FLAG=VALUE", help="A flag to pass to `podfit vpa admission`; may be repeated."
    ),
]
MeterResolution = Annotated[
    float, typer.Option("--meter-resolution", min=1, max=60, help="Seconds between measurements of usage.")
]

NodeIp = Annotated[
    str, typer.Option("--node-ip", metavar="IP", help="The address that the node reports; default: this machine's.")
]
AgentAddress = Annotated[
    str,
    typer.Option(
        "--address", metavar="IP", help="The address on which the agent's server listens; default: the node's."
    ),
]


def ip_address(flag: str, text: str) -> str:
    import ipaddress

    from podfit.compose import BadSetting

    try:
        return str(ipaddress.ip_address(text)) if text else ""
    except ValueError as error:
        raise BadSetting(f"{flag} {text!r}: it is an IP address, for example 10.0.0.2") from error


def autoscaler_flags(
    recommender: str, updater: str, admission: str, webhook_port: int, fail_closed: bool = False
) -> dict[str, list[str]]:
    """The command lines of the autoscaler's components: their addresses, and the webhook's failure policy."""
    flags: dict[str, list[str]] = {}
    for name, address in (("recommender", recommender), ("updater", updater), ("admission", admission)):
        if address:
            check_free(f"--{name}-address", address)
            flags[name] = [f"--address={address}"]
    if webhook_port:
        flags.setdefault("admission", []).append(f"--port={webhook_port}")
    if fail_closed:
        flags.setdefault("admission", []).append("--webhook-failure-policy-fail=true")
    return flags


def with_flags(flags: dict[str, list[str]], **given: list[str] | None) -> dict[str, list[str]]:
    """The command lines with the given `FLAG=VALUE`s added; an invalid one is reported before anything starts."""
    from podfit.vpa.admission.config import admission_config
    from podfit.vpa.recommender.config import recommender_config
    from podfit.vpa.updater.config import updater_config

    readers: dict[str, Callable[[list[str]], object]] = {
        "recommender": recommender_config,
        "updater": updater_config,
        "admission": admission_config,
    }
    for name, pairs in given.items():
        if pairs:
            own = [f"--{pair.lstrip('-')}" for pair in pairs]
            readers[name](own)
            flags.setdefault(name, []).extend(own)
    return flags


def host_port(text: str, flag: str = "--listen", example: str = "127.0.0.1:6443") -> tuple[str, int]:
    from podfit.compose import BadSetting

    host, colon, port = text.rpartition(":")
    if not colon or not port.isdigit() or int(port) > 65535:
        raise BadSetting(f"{flag} {text!r}: it is HOST:PORT, for example {example}")
    return host.strip("[]") or "127.0.0.1", int(port)


def check_free(flag: str, address: str) -> None:
    """Reports ports in use before anything starts; a component would report them only after the others have started."""
    from podfit.compose import BadSetting

    host, port = host_port(address, flag, "127.0.0.1:8942")
    try:
        family, _, _, _, place = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(place)
    except OSError as error:
        raise BadSetting(f"{flag} {address}: {error.strerror}") from error
