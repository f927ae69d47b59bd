"""Explains how an autoscaler calculated its recommendation, and why it skips a pod."""

from __future__ import annotations

from typing import Any

from podfit.api.objects import Object
from podfit.api.registry.kinds import EVENT, VPA_CHECKPOINT
from podfit.api.selectors import LabelSelector
from podfit.api.status import ApiError
from podfit.cli.explaining.recommender_queries import recommender_explanation, updater_explanation
from podfit.cli.printing.amounts import amount_text, number
from podfit.cli.printing.event_rows import in_order, when
from podfit.cli.printing.output import age, paragraph, table
from podfit.cli.resizing.overrides import FROZEN
from podfit.cli.sizing.measured import vpa_objects
from podfit.cli.sizing.recommended import recommendations, target_pods
from podfit.client import Client
from podfit.vpa.model.objects.matching import own_selector
from podfit.vpa.model.objects.policy import update_mode
from podfit.vpa.recommender.plugins import PLUGINS
from podfit.vpa.recommender.serving.explain import explain_objects
from podfit.vpa.runtimes.floors import heaps_of

NOT_ALL = (
    "These steps come from checkpoints, which leave out the memory peaks of windows that still last (a day):\n"
    "the recommendation in the first table is the one in force."
)
COLUMNS = ["  CONTAINER", "RESOURCE", "REQUEST NOW", "LOWER", "TARGET", "UPPER", "PODS OFF TARGET"]


async def explain_vpa(
    client: Client, vpa: Object, width: int = 0, recommender: str = ""
) -> tuple[list[str], dict[str, Any]]:
    """Lines to print, and their data. `recommender`: the address at which to ask, if it is known."""
    namespace, name = vpa["metadata"]["namespace"], vpa["metadata"]["name"]
    checkpoints = (await client.list(VPA_CHECKPOINT, namespace))["items"]
    events = await _events(client, vpa)
    story, silent = await recommender_explanation(client, vpa, checkpoints, recommender)
    pods = await target_pods(client, vpa)
    numbers = story or explain_objects(vpa, checkpoints, heaps=heaps_of(pods))
    given = await recommendations(client, vpa)
    rows = [row.cells()[2:] for row in given]
    lines = [_headline(vpa, pods)]
    lines.append(table([["  " + row[0], *row[1:]] for row in rows], COLUMNS))
    lines += _conditions(vpa, width)
    waits = [*_not_started(pods), *_unserved(vpa, answered=bool(story)), *([silent] if silent else [])]
    lines += [paragraph(line, width, "") for line in waits]
    lines += [paragraph(line, width, "") for line in why_numbers(numbers)]
    if numbers.get("settings"):
        named = ", ".join(f"--{flag}={value}" for flag, value in numbers["settings"].items())
        lines.append(f"The recommender's settings: {named}")
    if other_settings(vpa, numbers):
        lines.append(NOT_ALL)
    verdicts = await updater_explanation(client, vpa, checkpoints, recommender)
    lines += [paragraph(line, width, "") for line in _verdicts(verdicts or {})]
    lines += _why_not(vpa, events, width)
    found = {"vpa": f"{namespace}/{name}", "recommendations": vpa_objects([(vpa, given)])[0], "numbers": numbers}
    return lines, {**found, "updater": verdicts, "events": events}


def _headline(vpa: Object, pods: list[Object]) -> str:
    ref, name, selected = vpa["spec"].get("targetRef") or {}, vpa["metadata"]["name"], own_selector(vpa)
    target = f"{(ref.get('kind') or '?').lower()}/{ref.get('name')}"
    if selected is not None:
        labels = str(LabelSelector.from_object(selected))
        target = f"the pods with {labels}" if labels else "every pod of its namespace"
    waiting = sum(_pending(pod) for pod in pods)
    counted = f"{len(pods)} pod" if len(pods) == 1 else f"{len(pods)} pods"
    counted += f", {waiting} of them Pending" if waiting else ""
    return f"vpa/{name} scales {target} ({counted}), mode {update_mode(vpa)}:"


def _pending(pod: Object) -> bool:
    return (pod.get("status") or {}).get("phase") in (None, "", "Pending")


def _not_started(pods: list[Object]) -> list[str]:
    """Explains why there are no samples yet: pods that have not started have none."""
    found = []
    for pod in pods:
        gates = [gate.get("name") or "" for gate in (pod.get("spec") or {}).get("schedulingGates") or ()]
        if gates:
            found.append(f"Pod {pod['metadata']['name']} is held back by scheduling gate {', '.join(gates)}.")
    if pods and all(_pending(pod) for pod in pods):
        found.append("None of the pods has started; the recommender matches pods that have.")
    return found


def _unserved(vpa: Object, answered: bool) -> list[str]:
    """Reports that the recommender named by the autoscaler is not running, so no recommendation is ever written."""
    names = [entry.get("name") or "" for entry in vpa["spec"].get("recommenders") or ()]
    if answered or not names or any(name in PLUGINS for name in names):
        return []
    return [
        f"Its recommender is {', '.join(names)}: one that runs with --recommender-name={names[0]} has to size it. "
        f"podfit's own are {', '.join(sorted(PLUGINS))}."
    ]


def _conditions(vpa: Object, width: int) -> list[str]:
    found = []
    for condition in (vpa.get("status") or {}).get("conditions") or ():
        why = ": ".join(part for part in (condition.get("reason"), condition.get("message")) if part)
        found.append(paragraph(f"{condition['type']}={condition['status']}" + (f" ({why})" if why else ""), width))
    return ["Conditions:", *found] if found else []


def why_numbers(numbers: dict[str, Any]) -> list[str]:
    """The calculation of each target, step by step."""
    lines = []
    for container, known in (numbers.get("containers") or {}).items():
        lines.append(f"Container {container}: {_samples(known)}")
        for resource, sizes in known["resources"].items():
            target = sizes["target"]
            steps = ", ".join(f"{step['what']} = {_amount(resource, step['value'])}" for step in target["steps"])
            size = _amount(resource, target["value"])
            lines.append(f"  {resource} target {size}: {steps} (confidence {sizes['confidence']:.3g})")
        lines += [f"  {line}" for line in policy_lines(known.get("policies") or {})]
        if runtime := known.get("runtime"):
            lines.append(f"  {runtime['heap']}; {runtime['restart']}")
        if similar := known.get("similar"):
            lines.append(f"  sizes come from containers with {similar['from']}")
        if without := known.get("withoutSamples"):
            lines.append(f"  {' and '.join(without)}: no recommendation without samples")
        for oom in known["oomEvents"]:
            lines.append(f"  out of memory {oom.get('at')} in {oom.get('pod')}: {oom.get('outcome')}")
    if numbers.get("off"):
        lines.append(f"Not resized, because their policy has mode Off: {', '.join(numbers['off'])}")
    if not lines:
        lines.append(
            "No checkpoint yet: the steps behind the numbers are known once the recommender has written one. With "
            "--storage=prometheus it writes none; --recommender URL names its --address."
        )
    return lines


def policy_lines(judged: dict[str, Any]) -> list[str]:
    """The performance that other policies would have had, one line each."""
    lines = []
    for policy, each in judged.items():
        words = [
            f"{resource} {quality['slack']:.0%} idle, {quality['samplesShort']:.2%} of samples short"
            + (f", {quality['daysShort']:.0%} of days with an OOM" if resource == "memory" else "")
            + f", {quality['resizesADay']:.1f} resizes a day"
            for resource, quality in each.items()
        ]
        days = max((quality["days"] for quality in each.values()), default=0)
        if words:
            lines.append(f"policy {policy} over {days} day{'' if days == 1 else 's'}: {'; '.join(words)}")
    return lines


def _amount(resource: str, value: str) -> str:
    """An amount in the units of the table: 10000000 bytes become 9.5Mi."""
    return amount_text(resource, number(resource, value))


def _samples(known: dict[str, Any]) -> str:
    if not known["samples"]:
        return "no samples"
    return f"{known['samples']} samples from {known['firstSample']} to {known['lastSample']}"


def other_settings(vpa: Object, numbers: dict[str, Any]) -> bool:
    """Whether the steps, computed from the checkpoints, give a result that differs from the recommendation."""
    given = ((vpa.get("status") or {}).get("recommendation") or {}).get("containerRecommendations") or []
    for row in given:
        known = (numbers.get("containers") or {}).get(row["containerName"])
        for resource, target in (row.get("target") or {}).items():
            if known is None or resource not in known["resources"]:
                continue
            said, computed = number(resource, target), number(resource, known["resources"][resource]["target"]["value"])
            # A checkpoint is a little older than the recommendation, so only a real difference counts.
            if abs(said - computed) > 0.2 * max(said, computed):
                return True
    return False


def _verdicts(story: dict[str, Any]) -> list[str]:
    """The decisions of the updater's last pass; pods with the same verdict share a line."""
    alike: dict[tuple[str, str], list[str]] = {}
    for pod, verdict in (story.get("pods") or {}).items():
        alike.setdefault((verdict["reason"], verdict["message"]), []).append(pod)
    lines = [f"  {', '.join(pods)}: {reason}: {message}." for (reason, message), pods in alike.items()]
    lines += [f"  {pod}: got less than recommended: {words}." for pod, words in (story.get("cut") or {}).items()]
    return [f"Pods in the updater's last pass ({story['at']}):", *lines] if lines else []


def _why_not(vpa: Object, events: list[Object], width: int = 0) -> list[str]:
    lines = []
    mode = update_mode(vpa)
    if mode == "Off":
        lines.append("Mode Off: pods are not changed.")
    elif mode == "Initial":
        lines.append("Mode Initial: new pods get the recommended size, running pods are not changed.")
    if FROZEN in (vpa["metadata"].get("annotations") or {}):
        lines.append(f"Frozen by the annotation {FROZEN}.")
    if events:
        lines.append("Events:")
        rows = [["  " + age(when(event)), event.get("reason"), event.get("message")] for event in events[-10:]]
        lines.append(table(rows, width=width))
    return lines


async def _events(client: Client, vpa: Object) -> list[Object]:
    selector = f"involvedObject.kind=VerticalPodAutoscaler,involvedObject.name={vpa['metadata']['name']}"
    try:
        listed = await client.list(EVENT, vpa["metadata"]["namespace"], fieldSelector=selector)
    except ApiError:
        return []
    return in_order(listed["items"])
