"""The page about a node: its capacity, the requests of its pods, pending resizes, the Events."""

from __future__ import annotations

from podfit.api.objects import Object
from podfit.api.registry.kinds import EVENT, POD
from podfit.api.resize.progress import pending
from podfit.apiserver.tables.kinds.pods import summary
from podfit.cli.printing.amounts import RESOURCES, amount_text, pair_text, percent, quantities
from podfit.cli.printing.event_rows import event_rows, in_order
from podfit.cli.printing.output import age, paragraph, table
from podfit.cli.printing.wording import condition_words, node_notable
from podfit.cli.resizing.shortages import shortage_on
from podfit.cli.resizing.stages import step_of
from podfit.cli.sizing.usage import NodeUse, amounts_of, node_metrics, node_uses, text_of
from podfit.client import Client

ENDED = ("Succeeded", "Failed")


async def gather(client: Client, node: Object) -> Object:
    name = node["metadata"]["name"]
    listed = await client.list(POD, fieldSelector=f"spec.nodeName={name}")
    pods = [pod for pod in listed["items"] if (pod.get("status") or {}).get("phase") not in ENDED]
    events = await client.list(EVENT, fieldSelector=f"involvedObject.kind=Node,involvedObject.name={name}")
    [use] = node_uses([node], pods, await node_metrics(client))
    return {"node": node, "use": use, "pods": pods, "events": in_order(events["items"])}


def data(facts: Object) -> Object:
    """The output of `-o json`: quantities as in the API."""
    use: NodeUse = facts["use"]
    status = facts["node"].get("status") or {}
    return {
        "name": use.name,
        "capacity": status.get("capacity") or {},
        "allocatable": status.get("allocatable") or {},
        "requested": quantities(use.requested),
        "usage": quantities(use.used),
        "conditions": status.get("conditions") or [],
        "pods": [f"{pod['metadata']['namespace']}/{pod['metadata']['name']}" for pod in facts["pods"]],
        "waitingResizes": use.waiting,
        "events": facts["events"],
    }


def page(facts: Object, width: int = 0) -> str:
    parts = [_head(facts), _capacity(facts), _conditions(facts, width), _pods(facts, width)]
    if facts["events"]:
        parts.append(f"Events:\n{event_rows(facts['events'], width)}")
    return "\n\n".join(part for part in parts if part)


def _head(facts: Object) -> str:
    node = facts["node"]
    info = (node.get("status") or {}).get("nodeInfo") or {}
    unschedulable = "yes" if node["spec"].get("unschedulable") else "no"
    taints = [f"{taint['key']}:{taint.get('effect')}" for taint in node["spec"].get("taints") or ()]
    return table(
        [
            ("Name:", node["metadata"]["name"]),
            ("Version:", info.get("kubeletVersion") or "<unknown>"),
            ("Unschedulable:", unschedulable),
            ("Taints:", ", ".join(taints) or "<none>"),
            ("Age:", age(node["metadata"].get("creationTimestamp"))),
        ]
    )


def _capacity(facts: Object) -> str:
    use: NodeUse = facts["use"]
    capacity = amounts_of((facts["node"].get("status") or {}).get("capacity"))
    rows = [
        [
            f"  {resource}",
            text_of(resource, capacity),
            text_of(resource, use.allocatable),
            text_of(resource, use.requested),
            percent(use.requested.get(resource, 0), use.allocatable.get(resource, 0)),
            amount_text(resource, use.allocatable.get(resource, 0) - use.requested.get(resource, 0)),
            text_of(resource, use.used),
        ]
        for resource in RESOURCES
    ]
    header = ["  RESOURCE", "CAPACITY", "ALLOCATABLE", "REQUESTED", "FULL", "FREE", "USED"]
    return "Resources:\n" + table(rows, header)


def _conditions(facts: Object, width: int) -> str:
    found = (facts["node"].get("status") or {}).get("conditions") or ()
    lines = [condition_words(condition) for condition in found if node_notable(condition)] or ["Ready, no pressure"]
    return "Conditions:\n" + "\n".join(paragraph(line, width) for line in lines)


def _pods(facts: Object, width: int) -> str:
    if not facts["pods"]:
        return "Pods: none"
    rows = []
    for pod in facts["pods"]:
        meta, sizes = pod["metadata"], pod["spec"].get("containers") or ()
        cells = [
            ", ".join(pair_text(size.get("resources") or {}, resource) for size in sizes) for resource in RESOURCES
        ]
        waits = "-"
        if pending(pod) is not None:
            step = step_of(pod, shortage_on(pod, facts["node"], facts["pods"]))
            waits = ": ".join(filter(None, (step.reason, step.why)))
        rows.append([f"  {meta['namespace']}", meta["name"], summary(pod).word, *cells, waits])
    header = ["  NAMESPACE", "NAME", "STATUS", "CPU", "MEMORY", "WAITING RESIZE"]
    return f"Pods ({len(rows)}; request/limit of each container):\n{table(rows, header, width)}"
