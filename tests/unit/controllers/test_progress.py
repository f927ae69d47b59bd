"""A Deployment's conditions about its roll-out, and their order."""

from typing import Any

from podfit.api.objects import Object
from podfit.controllers.workloads.deployments.progress import Start, deployment_status, is_complete, not_made
from podfit.kit.clock import rfc3339

NOW = 1_800_000_000.0


def deployment(replicas: int = 3, status: Object | None = None, **spec: Any) -> Object:
    meta = {"name": "web", "namespace": "default", "generation": 2}
    return {"metadata": meta, "spec": {"replicas": replicas, **spec}, "status": status or {}}


def replica_set(name: str, replicas: int, available: int, **status: Any) -> Object:
    counts = {"replicas": replicas, "readyReplicas": available, "availableReplicas": available}
    return {"metadata": {"name": name}, "spec": {"replicas": replicas}, "status": {**counts, **status}}


def looked_at(
    obj: Object, sets: list[Object], now: float = NOW, start: Start = Start.NOTHING
) -> tuple[Object, float | None]:
    """After a look whose newest ReplicaSet is the last of `sets`."""
    new = sets[-1] if sets else None
    status, deadline = deployment_status(obj, new, sets, now, new["status"].get("replicas", 0) if new else 0, start)
    return {**obj, "status": status}, deadline


def reported(obj: Object) -> list[tuple[str, str, str, str]]:
    conditions = obj["status"]["conditions"]
    return [(row["type"], row["status"], row["reason"], row["message"]) for row in conditions]


def progress(obj: Object) -> tuple[str, str, str]:
    return next(row[1:] for row in reported(obj) if row[0] == "Progressing")


DONE = ("True", "NewReplicaSetAvailable", 'ReplicaSet "web-1" has successfully progressed.')
UNAVAILABLE = ("Available", "False", "MinimumReplicasUnavailable", "Deployment does not have minimum availability.")
AVAILABLE = ("Available", "True", "MinimumReplicasAvailable", "Deployment has minimum availability.")


def rolled_out() -> Object:
    one, _ = looked_at(deployment(), [replica_set("web-1", 3, 3)], NOW - 5000)
    assert progress(one) == DONE
    return one


def test_a_new_replica_set_is_reported_before_availability() -> None:
    one, deadline = looked_at(deployment(), [replica_set("web-1", 3, 0)], start=Start.MADE)
    made = ("Progressing", "True", "NewReplicaSetCreated", 'Created new replica set "web-1"')
    # Existing pods count as progress already: the creation of the set is reported only while there are none.
    assert reported(one) == [
        UNAVAILABLE,
        ("Progressing", "True", "ReplicaSetUpdated", 'ReplicaSet "web-1" is progressing.'),
    ]
    one, deadline = looked_at(deployment(), [{**replica_set("web-1", 3, 0), "status": {}}], start=Start.MADE)
    assert reported(one) == [made, UNAVAILABLE] and deadline == NOW + 600


def test_an_existing_replica_set_is_reported_as_found() -> None:
    one, _ = looked_at(deployment(), [{**replica_set("web-1", 3, 0), "status": {}}])
    assert progress(one) == ("True", "FoundNewReplicaSet", 'Found new replica set "web-1"')


def test_a_roll_out_that_ended_stays_so_when_pods_fail_or_are_added_later() -> None:
    failing, deadline = looked_at(rolled_out(), [replica_set("web-1", 3, 0)])
    assert (progress(failing), deadline) == (DONE, None)
    assert reported(failing)[-1] == UNAVAILABLE
    later, deadline = looked_at(failing, [replica_set("web-1", 3, 0)], NOW + 5000)
    assert (progress(later), deadline) == (DONE, None)
    more = {**rolled_out(), "spec": {"replicas": 10}}
    larger, deadline = looked_at(more, [replica_set("web-1", 10, 3)])
    assert (progress(larger), deadline) == (DONE, None)


def test_a_second_rollout_is_reported_as_created_then_progressing_then_complete() -> None:
    one, _ = looked_at(
        rolled_out(), [replica_set("web-1", 3, 3), {**replica_set("web-2", 1, 0), "status": {}}], start=Start.MADE
    )
    assert progress(one) == ("True", "NewReplicaSetCreated", 'Created new replica set "web-2"')
    one, _ = looked_at(one, [replica_set("web-1", 2, 2), replica_set("web-2", 2, 1)])
    assert progress(one) == ("True", "ReplicaSetUpdated", 'ReplicaSet "web-2" is progressing.')
    one, _ = looked_at(one, [replica_set("web-1", 0, 0), replica_set("web-2", 3, 3)])
    assert progress(one) == ("True", "NewReplicaSetAvailable", 'ReplicaSet "web-2" has successfully progressed.')


def test_a_roll_out_without_progress_times_out() -> None:
    sets = [replica_set("web-1", 3, 0)]
    one, _ = looked_at(deployment(progressDeadlineSeconds=10), sets)
    one, deadline = looked_at(one, sets, NOW + 5)
    assert deadline == NOW + 10
    one, deadline = looked_at(one, sets, NOW + 11)
    assert progress(one) == ("False", "ProgressDeadlineExceeded", 'ReplicaSet "web-1" has timed out progressing.')
    assert deadline is None
    one, deadline = looked_at(one, [replica_set("web-1", 3, 1)], NOW + 20)
    assert progress(one)[:2] == ("True", "ReplicaSetUpdated") and deadline == NOW + 30


def test_pausing_and_resuming_are_reported_only_with_a_progress_deadline() -> None:
    sets = [replica_set("web-1", 3, 0)]
    one, _ = looked_at(deployment(paused=True), sets)
    assert reported(one) == [("Progressing", "Unknown", "DeploymentPaused", "Deployment is paused"), UNAVAILABLE]
    one, _ = looked_at({**one, "spec": {"replicas": 3}}, sets)
    assert progress(one) == ("Unknown", "DeploymentResumed", "Deployment is resumed")
    one, _ = looked_at(deployment(paused=True, progressDeadlineSeconds=2**31 - 1), sets)
    assert reported(one) == [UNAVAILABLE]


def test_the_failure_of_the_new_set_comes_last_and_keeps_its_time() -> None:
    def failing(message: str) -> Object:
        at = rfc3339(NOW - 60)
        row = {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": message}
        return {"conditions": [{**row, "lastTransitionTime": at}]}

    sets = [replica_set("web-1", 1, 1, **failing("old")), {**replica_set("web-2", 2, 0), "status": failing("new")}]
    one, _ = looked_at(deployment(), sets)
    assert [row[0] for row in reported(one)] == ["Available", "Progressing", "ReplicaFailure"]
    failure = one["status"]["conditions"][-1]
    assert (failure["message"], failure["lastUpdateTime"]) == ("new", rfc3339(NOW - 60))
    sets[1]["status"] = failing("another name each time")
    one, _ = looked_at(one, sets)
    assert one["status"]["conditions"][-1] == failure
    one, _ = looked_at(one, [replica_set("web-2", 3, 3)])
    assert [row[0] for row in reported(one)] == ["Available", "Progressing"]


def test_a_replica_set_that_cannot_be_created_is_reported_with_the_reason() -> None:
    status = not_made(deployment(), "no room", NOW)
    assert reported({"status": status}) == [("Progressing", "False", "ReplicaSetCreateError", "no room")]
    again = not_made(deployment(status=status), "no room, another time", NOW + 5)
    assert again == status


def test_complete_is_what_the_status_says_of_the_present_generation() -> None:
    one = rolled_out()
    assert is_complete(one)
    assert not is_complete({**one, "metadata": {**one["metadata"], "generation": 3}})
    assert not is_complete({**one, "spec": {"replicas": 4}})
