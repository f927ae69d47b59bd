"""Options of several components, and the parsing of their values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from podfit.scheduler import SchedulerConfig

Listen = Annotated[
    str, typer.Option("--listen", metavar="HOST:PORT", help="The address of the API server; port 0: any free port.")
]
StoreName = Annotated[
    str, typer.Option("--store", help="The store of the API server: sqlite, memory or etcd=URL[,URL…].")
]
Kubeconfig = Annotated[
    str, typer.Option("--kubeconfig", help="The kubeconfig to use; default: $KUBECONFIG, then ~/.kube/config.")
]
Verbose = Annotated[
    int, typer.Option("--verbose", "-v", count=True, help="Log more; repeat it (-vv) to log everything.")
]
LeaderElect = Annotated[
    bool,
    typer.Option("--leader-elect", help="Run only while holding a Lease, so that of several replicas one is active."),
]
EnableAdmission = Annotated[
    str,
    typer.Option(
        "--enable-admission-plugins", metavar="A,B", help="Admission plugins to enable in addition to the default ones."
    ),
]
DisableAdmission = Annotated[
    str, typer.Option("--disable-admission-plugins", metavar="A,B", help="Default admission plugins to disable.")
]
ResizeDialect = Annotated[
    str,
    typer.Option(
        "--resize-dialect",
        help="The dialect of the resize API in namespaces whose label names no other (docs/dialects.md).",
    ),
]
NodeCpu = Annotated[
    str, typer.Option("--node-cpu", help="The CPU capacity that the node reports; default: the machine's.")
]
NodeMemory = Annotated[
    str, typer.Option("--node-memory", help="The memory capacity that the node reports; default: the machine's.")
]
StopPods = Annotated[bool, typer.Option("--stop-pods", help="Stop the pods on exit instead of leaving them running.")]
DeferredPolicy = Annotated[
    str,
    typer.Option(
        "--deferred-resize-policy",
        help="What happens to a Deferred resize: wait, or preempt pods of lower priority for it.",
    ),
]
DeferredDeadline = Annotated[
    float,
    typer.Option("--deferred-resize-deadline", help="Seconds for which a resize stays Deferred before it may preempt."),
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
    """The node's name, by default this machine's. Raises BadSetting for a name that an API server would reject."""
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
