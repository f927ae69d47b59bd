"""Options of several components, and the parsing of their values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from podfit.scheduler import SchedulerConfig

Listen = Annotated[
    str, typer.Option("--listen", metavar="HOST:PORT", help="Where the API server listens; port 0 picks one.")
]
StoreName = Annotated[str, typer.Option("--store", help="sqlite, memory or etcd=URL[,URL…].")]
Kubeconfig = Annotated[
    str, typer.Option("--kubeconfig", help="The kubeconfig to use; default $KUBECONFIG, ~/.kube/config.")
]
Verbose = Annotated[int, typer.Option("--verbose", "-v", count=True, help="Log more; twice for everything.")]
LeaderElect = Annotated[bool, typer.Option("--leader-elect", help="Work only while holding the component's Lease.")]
EnableAdmission = Annotated[
    str, typer.Option("--enable-admission-plugins", metavar="A,B", help="Admission plugins on top of the default ones.")
]
DisableAdmission = Annotated[
    str, typer.Option("--disable-admission-plugins", metavar="A,B", help="Default admission plugins to leave out.")
]
ResizeDialect = Annotated[
    str,
    typer.Option("--resize-dialect", help="The form of in-place resize in namespaces without a label for it."),
]
NodeCpu = Annotated[str, typer.Option("--node-cpu", help="The node's CPU capacity, instead of the machine's.")]
NodeMemory = Annotated[str, typer.Option("--node-memory", help="The node's memory capacity, instead of the machine's.")]
StopPods = Annotated[
    bool, typer.Option("--stop-pods", help="Stop the pods at the end instead of leaving them running.")
]
DeferredPolicy = Annotated[
    str, typer.Option("--deferred-resize-policy", help="wait, or preempt less important pods for a Deferred resize.")
]
DeferredDeadline = Annotated[
    float, typer.Option("--deferred-resize-deadline", help="Seconds a resize stays Deferred before it may preempt.")
]


def words(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def capacity(cpu: str, memory: str) -> dict[str, str]:
    from podfit.api.quantity import Quantity, QuantityError
    from podfit.compose import BadSetting

    found = {name: value for name, value in (("cpu", cpu), ("memory", memory)) if value}
    for name, value in found.items():
        try:
            amount = Quantity.parse(value)
        except QuantityError as error:
            raise BadSetting(f"--node-{name} {value!r}: {error}") from error
        if amount.nanos < 0:
            raise BadSetting(f"--node-{name} {value!r}: must be greater than or equal to 0")
    return found


def named(node_name: str) -> str:
    """The node's name, by default this machine's: must be valid for an API server, or the agent could never
    register.
    """
    import socket

    from podfit.api.text.names import dns_subdomain
    from podfit.compose import BadSetting

    name = node_name or socket.gethostname().lower()
    if complaints := dns_subdomain(name):
        raise BadSetting(f"--node-name {name!r}: {complaints[0]}")
    return name


def scheduling(policy: str, deadline_s: float, name: str = "default-scheduler") -> SchedulerConfig:
    from podfit.compose import BadSetting
    from podfit.scheduler import SchedulerConfig

    try:
        return SchedulerConfig(name, deferred_resize_policy=policy, deferred_resize_deadline_s=deadline_s)
    except ValueError as error:
        raise BadSetting(f"{error}") from error
