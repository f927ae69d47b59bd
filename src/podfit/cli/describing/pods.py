"""The page about a pod: its containers, the four states side by side, conditions in plain words, the node's record of
resizes, the Events."""

from __future__ import annotations

from typing import Any

from podfit.api.objects import Object
from podfit.api.registry.kinds import EVENT
from podfit.apiserver.tables.kinds.pods import summary
from podfit.cli.containers import containers_of, oom_kills, oom_lines, state_words
from podfit.cli.node_side import STATES, states, story
from podfit.cli.printing.amounts import RESOURCES, pair_text
from podfit.cli.printing.event_rows import event_rows, in_order
from podfit.cli.printing.output import age, paragraph, table
from podfit.cli.printing.wording import chapter_words, condition_words, notable
from podfit.cli.resizing.following import words
from podfit.cli.resizing.shortages import shortage_of
from podfit.cli.resizing.stages import seen_by_node, step_of
from podfit.client import Client

STORY_LINES = 20
_UNKNOWN = "\n  (? is known to the node alone, which is not podfit's or does not answer)"


async def gather(client: Client, pod: Object) -> Object:
    rows, from_node = await states(client, pod)
    meta, status = pod["metadata"], pod.get("status") or {}
    selector = f"involvedObject.name={meta['name']},involvedObject.uid={meta['uid']}"
    events = await client.list(EVENT, meta["namespace"], fieldSelector=selector)
    chapters = await story(client, pod)
    return {
        "name": meta["name"],
        "namespace": meta["namespace"],
        "node": pod["spec"].get("nodeName"),
        "phase": status.get("phase"),
        "status": summary(pod).word,
        "qosClass": status.get("qosClass"),
        "generation": meta.get("generation"),
        "observedGeneration": status.get("observedGeneration"),
        "containers": [_container(container) for container in containers_of(pod)],
        "oomKills": [kill.data() for kill in oom_kills(pod, chapters or ())],
        "shortage": await shortage_of(client, pod),
        "states": rows,
        "statesFrom": "node" if from_node else "api",
        "conditions": status.get("conditions") or [],
        "story": chapters,
        "events": in_order(events["items"]),
    }


def _container(container: Any) -> Object:
    status = container.status
    return {
        "name": container.name,
        "state": status.get("state") or {},
        "lastState": status.get("lastState") or {},
        "ready": bool(status.get("ready")),
        "restartCount": container.restarts,
    }


def page(pod: Object, facts: Object, width: int = 0) -> str:
    """`width` is the terminal's; 0 wraps no lines."""
    parts = [
        table(_head(pod, facts), width=width),
        _containers(pod, facts, width),
        _states(facts),
        _conditions(facts, width),
        _story(facts, width),
        _events(facts, width),
    ]
    return "\n\n".join(part for part in parts if part)


def _head(pod: Object, facts: Object) -> list[tuple[str, str]]:
    tally = summary(pod)
    return [
        ("Name:", facts["name"]),
        ("Namespace:", facts["namespace"]),
        ("Node:", facts["node"] or "<none>"),
        ("Status:", f"{tally.word}, {facts['qosClass']}, restarts {tally.restarts}"),
        ("Age:", age(pod["metadata"].get("creationTimestamp"))),
        ("Resize:", _resize(pod, facts)),
    ]


def _resize(pod: Object, facts: Object) -> str:
    if facts["phase"] in ("Succeeded", "Failed"):
        return "none: the pod has ended"
    if not facts["node"]:
        return "none: the pod is not on a node yet"
    step = step_of(pod, facts["shortage"])
    return words(seen_by_node(step, facts["states"]) if facts["statesFrom"] == "node" else step)


def _containers(pod: Object, facts: Object, width: int) -> str:
    rows = [
        [
            f"  {container.label}",
            state_words(container.status.get("state")),
            "yes" if container.status.get("ready") else "no",
            container.restarts,
            state_words(container.status.get("lastState")),
        ]
        for container in containers_of(pod)
    ]
    lines = [table(rows, ["  CONTAINER", "STATE", "READY", "RESTARTS", "LAST STATE"], width)]
    lines += [paragraph(line, width) for line in oom_lines(pod, facts["story"] or ())]
    return "Containers:\n" + "\n".join(lines)


def _states(facts: Object) -> str:
    lines = []
    for row in facts["states"]:
        for resource in RESOURCES:
            sizes = (row.get(state) if facts["node"] else row.get(state) or {} for state in STATES)
            cells = [pair_text(size, resource) for size in sizes]
            lines.append([row["name"] if resource == "cpu" else "", resource, *cells])
    header = ["CONTAINER", "", *(state.upper() for state in STATES)]
    shown = table([["  " + line[0], *line[1:]] for line in lines], ["  " + header[0], *header[1:]])
    shown += "".join(
        f"\n  {row['name']}: {_offline(row['offlineVcpus'])}" for row in facts["states"] if row.get("offlineVcpus")
    )
    note = "" if facts["statesFrom"] == "node" or not facts["node"] else _UNKNOWN
    return f"States (request/limit):\n{shown}{note}"


def _offline(vcpus: int) -> str:
    more = "1 more vCPU is" if vcpus == 1 else f"{vcpus} more vCPUs are"
    return f"{more} plugged but offline in the guest, since an emulated machine cannot unplug vCPUs"


def _conditions(facts: Object, width: int) -> str:
    shown = [condition_words(condition) for condition in facts["conditions"] if notable(condition)]
    good = [
        condition["type"]
        for condition in facts["conditions"]
        if not notable(condition) and condition.get("status") == "True"
    ]
    lines = [*shown, *([", ".join(good) + ": all True"] if good else [])]
    return "Conditions:\n" + "\n".join(paragraph(line, width) for line in lines) if lines else ""


def _story(facts: Object, width: int) -> str:
    if not facts["story"]:
        return ""
    rows = []
    for chapter in facts["story"][-STORY_LINES:]:
        numbers = chapter_words(chapter.get("numbers"))
        rows.append(
            ["  " + chapter["time"][11:23], chapter["what"], ": ".join(filter(None, (chapter["why"], numbers)))]
        )
    return "Story:\n" + table(rows, width=width)


def _events(facts: Object, width: int) -> str:
    return f"Events:\n{event_rows(facts['events'], width)}" if facts["events"] else ""
