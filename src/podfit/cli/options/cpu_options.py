"""Options of `podfit up` and `podfit agent` about the CPU manager and reserved resources."""

from __future__ import annotations

from typing import Annotated, Any

import typer

CpuManagerPolicy = Annotated[
    str,
    typer.Option(
        "--cpu-manager-policy",
        metavar="none|static",
        help="With static, containers of Guaranteed pods that request whole CPUs get them exclusively.",
    ),
]
ReservedCpus = Annotated[
    str, typer.Option("--reserved-cpus", metavar="LIST", help="CPUs that are never exclusive, such as 0-1,8.")
]
SystemReserved = Annotated[
    str,
    typer.Option(
        "--system-reserved", metavar="A=N,…", help="Resources reserved for the system, such as cpu=500m,memory=1Gi."
    ),
]
KubeReserved = Annotated[
    str,
    typer.Option(
        "--kube-reserved", metavar="A=N,…", help="Resources reserved for the node's agents, in the same form."
    ),
]
FeatureGates = Annotated[
    str,
    typer.Option(
        "--feature-gates",
        metavar="A=true,…",
        help="Feature gates of the agent; InPlacePodVerticalScalingExclusiveCPUs is supported.",
    ),
]
GATES = ("InPlacePodVerticalScalingExclusiveCPUs",)
_VALUES = {"true": True, "t": True, "1": True, "false": False, "f": False, "0": False}
_RESERVABLE = ("cpu", "memory", "ephemeral-storage", "pid")


def cpu_settings(
    policy: str, reserved_cpus: str, system: str, kube: str, gates: str, alone: bool = True
) -> dict[str, Any]:
    """The fields of AgentConfig for these options. `alone`: no other node uses the machine's CPUs."""
    from podfit.agent.cpus.decide.state import POLICIES, STATIC
    from podfit.agent.cpus.reservation import BadReservation, replaced
    from podfit.agent.decide.resize.allocate import NodePolicy
    from podfit.compose import BadSetting

    if policy not in POLICIES:
        raise BadSetting(f"--cpu-manager-policy {policy!r}: must be none or static")
    if policy == STATIC and not alone:
        raise BadSetting("--cpu-manager-policy static: nodes on one machine cannot have its CPUs to themselves")
    enabled = feature_gates(gates)
    try:
        reserved = replaced(amounts("--system-reserved", system), amounts("--kube-reserved", kube), reserved_cpus)
    except BadReservation as error:
        raise BadSetting(str(error)) from error
    return {
        "policy": NodePolicy(cpu_manager=policy, exclusive_cpus_resize=enabled.get(GATES[0], False)),
        "reserved": reserved[0],
        "kube_reserved": reserved[1],
        "reserved_cpus": reserved_cpus,
        "feature_gates": enabled,
    }


def amounts(option: str, listed: str) -> dict[str, str]:
    from podfit.api.quantity import Quantity, QuantityError
    from podfit.compose import BadSetting

    found: dict[str, str] = {}
    for part in filter(None, (item.strip() for item in listed.split(","))):
        name, _, value = part.partition("=")
        if name not in _RESERVABLE:
            raise BadSetting(f'{option} value failed to parse: cannot reserve "{name}" resource')
        try:
            if Quantity.parse(value).nanos < 0:
                raise BadSetting(f'{option} value failed to parse: resource quantity for "{name}" cannot be negative')
        except QuantityError as error:
            raise BadSetting(f'{option} value failed to parse: quantity "{value}" for "{name}": {error}') from error
        found[name] = value
    return found


def feature_gates(listed: str) -> dict[str, bool]:
    from podfit.compose import BadSetting

    found: dict[str, bool] = {}
    for part in filter(None, (item.strip() for item in listed.split(","))):
        name, equals, value = part.partition("=")
        if not equals:
            raise BadSetting(f"--feature-gates: missing bool value for {name}")
        if value.lower() not in _VALUES:
            raise BadSetting(f"--feature-gates: invalid value of {name}={value}, it is true or false")
        if name not in GATES:
            raise BadSetting(f"--feature-gates: unrecognized feature gate: {name}")
        found[name] = _VALUES[value.lower()]
    return found
