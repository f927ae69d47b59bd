"""Rows of workloads: deployments and other sets of replicas, jobs, budgets, autoscalers."""

from __future__ import annotations

from typing import Any

from podfit.api.objects import Object
from podfit.apiserver.tables.columns import (
    AGE,
    NAME,
    NONE,
    Column,
    Elapsed,
    Layout,
    age,
    containers_and_images,
    human_duration,
    labels_text,
    name,
    selector_text,
    since,
    spec,
    status,
    wide,
)
from podfit.kit.clock import parse_rfc3339

_CONTAINERS = wide("Containers", "Names of each container in the template.")
_IMAGES = wide("Images", "Images referenced by each container in the template.")


def _template_of(obj: Object) -> tuple[str, str]:
    return containers_and_images(spec(spec(obj).get("template") or {}))


def _deployment(obj: Object) -> list[Any]:
    ready = f"{status(obj).get('readyReplicas', 0)}/{spec(obj).get('replicas', 0)}"
    return [
        name(obj),
        ready,
        status(obj).get("updatedReplicas", 0),
        status(obj).get("availableReplicas", 0),
        age(obj),
        *_template_of(obj),
        selector_text(spec(obj).get("selector")),
    ]


def _replica_set(obj: Object) -> list[Any]:
    selector = spec(obj).get("selector")
    plain = selector is not None and not {"matchLabels", "matchExpressions"} & set(selector)
    return [
        name(obj),
        spec(obj).get("replicas", 0),
        status(obj).get("replicas", 0),
        status(obj).get("readyReplicas", 0),
        age(obj),
        *_template_of(obj),
        labels_text(selector) if plain else selector_text(selector),
    ]


def _stateful_set(obj: Object) -> list[Any]:
    ready = f"{status(obj).get('readyReplicas', 0)}/{spec(obj).get('replicas', 0)}"
    return [name(obj), ready, age(obj), *_template_of(obj)]


def _daemon_set(obj: Object) -> list[Any]:
    counts = ("desiredNumberScheduled", "currentNumberScheduled", "numberReady", "updatedNumberScheduled")
    template = spec(spec(obj).get("template") or {})
    return [
        name(obj),
        *(status(obj).get(word, 0) for word in counts),
        status(obj).get("numberAvailable", 0),
        labels_text(template.get("nodeSelector")),
        age(obj),
        *_template_of(obj),
        selector_text(spec(obj).get("selector")),
    ]


def _job(obj: Object) -> list[Any]:
    done = status(obj).get("succeeded", 0)
    wanted, parallel = spec(obj).get("completions"), spec(obj).get("parallelism", 0) or 0
    if wanted is not None:
        completions = f"{done}/{wanted}"
    else:
        completions = f"{done}/1 of {parallel}" if parallel > 1 else f"{done}/1"
    return [
        name(obj),
        _job_word(obj),
        completions,
        _job_duration(obj),
        age(obj),
        *_template_of(obj),
        selector_text(spec(obj).get("selector")),
    ]


def _job_word(obj: Object) -> str:
    found = {row.get("type") for row in status(obj).get("conditions") or [] if row.get("status") == "True"}
    for kind, word in (("Complete", "Complete"), ("Failed", "Failed")):
        if kind in found:
            return word
    if obj["metadata"].get("deletionTimestamp"):
        return "Terminating"
    for kind, word in (("Suspended", "Suspended"), ("FailureTarget", "FailureTarget"), ("SuccessCriteriaMet",) * 2):
        if kind in found:
            return word
    return "Running"


def _job_duration(obj: Object) -> Elapsed | str:
    start, end = status(obj).get("startTime"), status(obj).get("completionTime")
    if not start:
        return ""
    began = parse_rfc3339(start)
    return human_duration(parse_rfc3339(end) - began) if end else Elapsed(began)


def _cron_job(obj: Object) -> list[Any]:
    last = status(obj).get("lastScheduleTime")
    job = spec(obj).get("jobTemplate") or {}
    return [
        name(obj),
        spec(obj).get("schedule", ""),
        spec(obj).get("timeZone") or NONE,
        "True" if spec(obj).get("suspend") else "False",
        len(status(obj).get("active") or []),
        since(last) if last else NONE,
        age(obj),
        *_template_of(job),
        selector_text(spec(job).get("selector")),
    ]


def _budget(obj: Object) -> list[Any]:
    return [
        name(obj),
        _or_na(spec(obj).get("minAvailable")),
        _or_na(spec(obj).get("maxUnavailable")),
        status(obj).get("disruptionsAllowed", 0),
        age(obj),
    ]


def _or_na(value: Any) -> str:
    return "N/A" if value is None else str(value)


def _revision(obj: Object) -> list[Any]:
    owner = next((row for row in obj["metadata"].get("ownerReferences") or [] if row.get("controller")), None)
    shown = NONE
    if owner is not None:
        group = owner.get("apiVersion", "").rpartition("/")[0]
        kind = owner.get("kind", "").lower()
        shown = f"{kind}.{group}/{owner.get('name')}" if group else f"{kind}/{owner.get('name')}"
    return [name(obj), shown, obj.get("revision", 0), age(obj)]


def _count(word: str, text: str) -> Column:
    return Column(word, "integer", text)


_SELECTOR = wide("Selector", "The labels of the pods it looks after.")
_REPLICA_SETS = Layout(
    (
        NAME,
        _count("Desired", "How many pods there should be."),
        _count("Current", "How many pods there are."),
        _count("Ready", "How many of them are ready."),
        AGE,
        _CONTAINERS,
        _IMAGES,
        _SELECTOR,
    ),
    _replica_set,
)
LAYOUTS: dict[tuple[str, str], Layout] = {
    ("apps", "deployments"): Layout(
        (
            NAME,
            Column("Ready", description="Number of the pod with ready state"),
            Column(
                "Up-to-date",
                description="Total number of non-terminating pods targeted by this deployment that have the desired "
                "template spec.",
            ),
            Column(
                "Available",
                description="Total number of available non-terminating pods (ready for at least minReadySeconds) "
                "targeted by this deployment.",
            ),
            AGE,
            _CONTAINERS,
            _IMAGES,
            wide(
                "Selector",
                "Label selector for pods. Existing ReplicaSets whose pods are selected by this will be the ones "
                "affected by this deployment. It must match the pod template's labels.",
            ),
        ),
        _deployment,
    ),
    ("apps", "replicasets"): _REPLICA_SETS,
    ("", "replicationcontrollers"): _REPLICA_SETS,
    ("apps", "statefulsets"): Layout(
        (NAME, Column("Ready", description="Number of the pod with ready state"), AGE, _CONTAINERS, _IMAGES),
        _stateful_set,
    ),
    ("apps", "daemonsets"): Layout(
        (
            NAME,
            _count("Desired", "How many nodes should run the pod."),
            _count("Current", "How many nodes run at least one pod and should."),
            _count("Ready", "How many nodes have a ready pod."),
            _count("Up-to-date", "How many nodes run the newest template."),
            _count("Available", "How many nodes have an available pod."),
            Column("Node Selector", description="The labels of the nodes the pod runs on."),
            AGE,
            _CONTAINERS,
            _IMAGES,
            _SELECTOR,
        ),
        _daemon_set,
    ),
    ("apps", "controllerrevisions"): Layout(
        (NAME, Column("Controller", description="Controller of the object"), Column("Revision"), AGE), _revision
    ),
    ("batch", "jobs"): Layout(
        (
            NAME,
            Column("Status", description="Status of the job."),
            Column("Completions", description="How many pods ended well, of how many that should."),
            Column("Duration", description="Time required to complete the job."),
            AGE,
            _CONTAINERS,
            _IMAGES,
            _SELECTOR,
        ),
        _job,
    ),
    ("batch", "cronjobs"): Layout(
        (
            NAME,
            Column("Schedule", description="When jobs start, in the notation of cron."),
            Column("Timezone", description="The time zone of the schedule."),
            Column("Suspend", "boolean", "Whether no more jobs are started."),
            _count("Active", "Jobs that run now."),
            Column("Last Schedule", description="When a job was last started."),
            AGE,
            _CONTAINERS,
            _IMAGES,
            _SELECTOR,
        ),
        _cron_job,
    ),
    ("policy", "poddisruptionbudgets"): Layout(
        (
            NAME,
            Column("Min Available", description="Pods that must stay available."),
            Column("Max Unavailable", description="Pods that may be unavailable."),
            _count("Allowed Disruptions", "How many pods may be disrupted now."),
            AGE,
        ),
        _budget,
    ),
}
