"""`podfit describe pod`: the four states side by side, conditions in words, the story, the Events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from podfit.cli.connect import Context, Kubeconfig, Namespace, connected
from podfit.cli.output import PAGES, PageOutput, age, check_format, print_object, say, table, wrong
from podfit.cli.run import finish

if TYPE_CHECKING:
    from podfit.cli.connect import Session

Object = dict[str, Any]
STORY_LINES = 20


def add_to(app: typer.Typer) -> None:
    app.command("describe", help="Show a pod's four states side by side, and its story.")(describe)


def describe(
    words: Annotated[list[str], typer.Argument(metavar="TYPE NAME", help="The pods, as `pod NAME` or `pod/NAME`.")],
    output: PageOutput = "",
    namespace: Namespace = "",
    context: Context = "",
    kubeconfig: Kubeconfig = "",
) -> None:
    check_format(output, PAGES)

    async def main() -> int:
        from podfit.cli.targets import NoSuchTarget, find_targets

        async with connected(kubeconfig, context, namespace) as session:
            try:
                found = await find_targets(session.client, session.namespace, words)
            except NoSuchTarget as error:
                wrong(str(error))
            pods = [pod for target in found for pod in target.pods]
            told = [await _gather(session, pod) for pod in pods]
            if output in ("json", "yaml"):
                print_object(output, told[0] if len(told) == 1 else told)
            else:
                say("\n\n\n".join(_page(pod, one) for pod, one in zip(pods, told, strict=True)))
            return 0

    finish(main())


async def _gather(session: Session, pod: Object) -> Object:
    from podfit.api.kinds import EVENT
    from podfit.cli.commands.events import when
    from podfit.cli.node_side import states, story

    rows, from_node = await states(session.client, pod)
    meta, status = pod["metadata"], pod.get("status") or {}
    selector = f"involvedObject.name={meta['name']},involvedObject.uid={meta['uid']}"
    events = await session.client.list(EVENT, meta["namespace"], fieldSelector=selector)
    return {
        "name": meta["name"],
        "namespace": meta["namespace"],
        "node": pod["spec"].get("nodeName"),
        "phase": status.get("phase"),
        "qosClass": status.get("qosClass"),
        "generation": meta.get("generation"),
        "observedGeneration": status.get("observedGeneration"),
        "states": rows,
        "statesFrom": "node" if from_node else "api",
        "conditions": status.get("conditions") or [],
        "story": await story(session.client, pod),
        "events": sorted(events["items"], key=when),
    }


def _page(pod: Object, told: Object) -> str:
    from podfit.cli.following import words  # fmt: skip
    from podfit.cli.stages import progress

    step = progress(pod)
    status = pod.get("status") or {}
    restarts = sum(int(one.get("restartCount") or 0) for one in status.get("containerStatuses") or ())
    top = [
        ("Name:", told["name"]),
        ("Namespace:", told["namespace"]),
        ("Node:", told["node"] or "<none>"),
        ("Status:", f"{told['phase']}, {told['qosClass']}, restarts {restarts}"),
        ("Age:", age(pod["metadata"].get("creationTimestamp"))),
        ("Resize:", words(step) if told["node"] else "not on a node yet"),
    ]
    parts = [table(top), _states(told), _conditions(pod, told), _story(told), _events(told)]
    return "\n\n".join(part for part in parts if part)


def _states(told: Object) -> str:
    from podfit.cli.amounts import RESOURCES, pair_text
    from podfit.cli.node_side import STATES

    lines = []
    for row in told["states"]:
        for resource in RESOURCES:
            cells = [pair_text(row.get(state), resource) for state in STATES]
            lines.append([row["name"] if resource == "cpu" else "", resource, *cells])
    header = ["CONTAINER", "", *(state.upper() for state in STATES)]
    shown = table([["  " + line[0], *line[1:]] for line in lines], ["  " + header[0], *header[1:]])
    note = (
        ""
        if told["statesFrom"] == "node"
        else "\n  (? is known to the node alone, which is not podfit's or does not answer)"
    )
    return f"States (request/limit):\n{shown}{note}"


def _conditions(pod: Object, told: Object) -> str:
    from podfit.cli.wording import condition_words, notable

    shown = [condition_words(one, told["node"] or "") for one in told["conditions"] if notable(one)]
    good = [one["type"] for one in told["conditions"] if not notable(one) and one.get("status") == "True"]
    lines = [*shown, *([", ".join(good) + ": all True"] if good else [])]
    return "Conditions:\n" + "\n".join(f"  {line}" for line in lines) if lines else ""


def _story(told: Object) -> str:
    from podfit.cli.wording import chapter_words

    if not told["story"]:
        return ""
    rows = [
        ["  " + one["time"][11:23], one["what"], one["why"], chapter_words(one.get("numbers"))]
        for one in told["story"][-STORY_LINES:]
    ]
    return "Story:\n" + table(rows)


def _events(told: Object) -> str:
    from podfit.cli.wording import sized_words

    rows = [
        ["  " + age(one.get("lastTimestamp") or one.get("eventTime")), one.get("type"), one.get("reason"),
         sized_words(str(one.get("message") or ""))]
        for one in told["events"]
    ]  # fmt: skip
    return "Events:\n" + table(rows, ["  AGE", "TYPE", "REASON", "MESSAGE"]) if rows else ""
