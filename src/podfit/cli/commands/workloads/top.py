"""`podfit top`: usage against requests and limits, waste and risk."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from podfit.cli.options.connect import (
    AllNamespaces,
    Context,
    Interval,
    Kubeconfig,
    Namespace,
    Selector,
    Watch,
    connected,
)
from podfit.cli.printing.output import (
    Output,
    check_format,
    echo,
    list_of,
    note,
    nothing_in,
    print_object,
    table,
    usage_error,
)
from podfit.cli.run import finish

if TYPE_CHECKING:
    from podfit.cli.options.connect import Session

WHAT = {"pods": "pods", "pod": "pods", "po": "pods", "nodes": "nodes", "node": "nodes", "no": "nodes", "vpa": "vpa"}
SHORT = {"PodMetrics": "pod", "NodeMetrics": "node", "VerticalPodAutoscaler": "vpa"}


def add_to(app: typer.Typer) -> None:
    app.command("top", help="Show usage next to requests and limits.")(top)


def top(
    what: Annotated[str, typer.Argument(metavar="pods|nodes|vpa", help="What to show.")] = "pods",
    watch: Watch = False,
    every_s: Interval = 2.0,
    selector: Selector = "",
    output: Output = "",
    namespace: Namespace = "",
    all_namespaces: AllNamespaces = False,
    context: Context = "",
    kubeconfig: Kubeconfig = "",
) -> None:
    check_format(output)
    if what not in WHAT:
        usage_error(f"top {what!r}: it is pods, nodes or vpa")

    async def main() -> int:
        from podfit.cli.printing.watching import show

        async with connected(kubeconfig, context, namespace, all_namespaces) as session:
            rows = {"pods": _pods, "nodes": _nodes, "vpa": _vpas}[WHAT[what]]
            if output in ("json", "yaml", "name"):
                _, _, objects = await rows(session, selector, False)
                _print(output, objects)
                return 0

            async def page() -> str:
                header, lines, _ = await rows(session, selector, output == "wide")
                if not lines:
                    return nothing_in(session.namespace if WHAT[what] != "nodes" else "")
                return table(lines, header)

            await show(page, watch, every_s)
            return 0

    finish(main())


Rows = tuple[list[str], list[list[str]], list[dict[str, Any]]]


def _print(output: str, objects: list[dict[str, Any]]) -> None:
    if output == "name":
        for item in objects:
            echo(f"{SHORT[item['kind']]}/{item['metadata']['name']}")
    else:
        print_object(output, list_of(objects))


def _no_usage(why: str) -> None:
    note(f"no usage: {why} (`podfit doctor` says more)")


async def _pods(session: Session, selector: str, wide: bool) -> Rows:
    from podfit.api.registry.kinds import POD
    from podfit.cli.printing.amounts import amount_text, percent
    from podfit.cli.sizing.measured import pod_objects
    from podfit.cli.sizing.usage import container_uses, pod_metrics, text_of

    query = {"labelSelector": selector} if selector else {}
    pods = (await session.client.list(POD, session.namespace, **query))["items"]
    metrics = await pod_metrics(session.client, session.namespace, selector, _no_usage)
    header = ["POD", "CONTAINER", "CPU", "REQ", "LIM", "USED", "WASTE", "MEMORY", "REQ", "LIM", "USED", "WASTE", "RISK"]
    header = (["NAMESPACE"] if not session.namespace else []) + header + (["RESTARTS"] if wide else [])
    uses, lines = container_uses(pods, metrics), []
    for use in uses:
        line = ([use.namespace] if not session.namespace else []) + [use.pod, use.container]
        for resource in ("cpu", "memory"):
            base = use.requests.get(resource) or 0
            line += [text_of(resource, use.used), text_of(resource, use.requests), text_of(resource, use.limits)]
            line.append(percent(use.used.get(resource, 0), base) if use.used is not None else "-")
            line.append(amount_text(resource, use.waste(resource)))
        line.append(use.risk or "-")
        lines.append([*line, str(use.restarts)] if wide else line)
    return header, lines, pod_objects(uses, metrics)


async def _nodes(session: Session, selector: str, wide: bool) -> Rows:
    from podfit.api.registry.kinds import NODE, POD
    from podfit.cli.printing.amounts import percent
    from podfit.cli.sizing.measured import node_objects
    from podfit.cli.sizing.usage import node_metrics, node_uses, text_of

    query = {"labelSelector": selector} if selector else {}
    nodes = (await session.client.list(NODE, **query))["items"]
    pods = (await session.client.list(POD))["items"]
    metrics = await node_metrics(session.client, _no_usage)
    header = ["NODE", "PODS", "CPU", "REQUESTED", "ALLOCATABLE", "FULL", "MEMORY", "REQUESTED", "ALLOCATABLE", "FULL"]
    header.append("WAITING RESIZES")
    uses, lines = node_uses(nodes, pods, metrics), []
    for use in uses:
        line = [use.name, str(use.pods)]
        for resource in ("cpu", "memory"):
            line += [text_of(resource, amount) for amount in (use.used, use.requested, use.allocatable)]
            line.append(percent(use.requested.get(resource, 0), use.allocatable.get(resource, 0)))
        lines.append([*line, str(use.waiting)])
    return header, lines, node_objects(uses, metrics)


async def _vpas(session: Session, selector: str, wide: bool) -> Rows:
    from podfit.api.registry.kinds import VPA
    from podfit.cli.sizing.measured import vpa_objects
    from podfit.cli.sizing.recommended import recommendations

    query = {"labelSelector": selector} if selector else {}
    vpas = (await session.client.list(VPA, session.namespace, **query))["items"]
    header = ["VPA", "MODE", "CONTAINER", "RESOURCE", "REQUEST NOW", "LOWER", "TARGET", "UPPER", "PODS OFF TARGET"]
    header = (["NAMESPACE"] if not session.namespace else []) + header
    given = [(vpa, await recommendations(session.client, vpa)) for vpa in vpas]
    lines = [
        ([vpa["metadata"]["namespace"]] if not session.namespace else []) + row.cells()
        for vpa, rows in given
        for row in rows
    ]
    return header, lines, vpa_objects(given)
