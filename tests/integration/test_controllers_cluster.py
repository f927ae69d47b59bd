"""DaemonSets, roll-outs, Jobs and StatefulSets against the real API server and agents on fake machines."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.cluster.expect import all_become, becomes
from tests.support.cluster.whole import Whole, pod_spec, workload
from tests.support.cluster.workloads import Pods, in_force, messages, names_of, resize, status_of

from podfit.api.registry.kinds import NODE, POD, kind_named

DEPLOYMENT, SET, STATEFUL, DAEMON, JOB, QUOTA, CLAIM = map(
    kind_named,
    ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job", "ResourceQuota", "PersistentVolumeClaim"),
)
IN_PLACE = {"podfit.dev/resize-policy": "InPlace"}


@pytest.fixture
async def whole(tmp_path: Path) -> AsyncIterator[Whole]:
    async with Whole(tmp_path) as cluster:
        yield cluster


@pytest.fixture
async def two(tmp_path: Path) -> AsyncIterator[Whole]:
    async with Whole(tmp_path, nodes=2, node_name="n") as cluster:
        yield cluster


def seen(obj: Any) -> bool:
    return bool(status_of(obj).get("observedGeneration") == obj["metadata"]["generation"])


def ready(count: int) -> Any:
    def check(obj: Any) -> bool:
        status = status_of(obj)
        return seen(obj) and all(
            status.get(field, 0) == count for field in ("replicas", "readyReplicas", "updatedReplicas")
        )

    return check


def daemons(count: int) -> Any:
    def check(obj: Any) -> bool:
        status = status_of(obj)
        fields = ("desiredNumberScheduled", "numberReady", "updatedNumberScheduled", "currentNumberScheduled")
        return seen(obj) and all(status.get(field, 0) == count for field in fields)

    return check


def uids(pods: Pods) -> set[str]:
    return {pod["metadata"]["uid"] for pod in pods}


def cpus(pods: Pods) -> set[str]:
    return {pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] for pod in pods}


async def pods_of(whole: Whole) -> Pods:
    return list((await whole.client.list(POD, "default"))["items"])


def annotated(body: dict[str, Any]) -> dict[str, Any]:
    body["metadata"]["annotations"] = dict(IN_PLACE)
    return body


# --- DaemonSets


def daemon(**more: Any) -> dict[str, Any]:
    return workload("DaemonSet", "d", None, pod=pod_spec(node="", **more))


async def test_a_daemon_runs_on_each_node(two: Whole) -> None:
    await two.client.create(DAEMON, daemon())
    await becomes(two.client, DAEMON, "default", "d", daemons(2))
    assert {pod["spec"]["nodeName"] for pod in await pods_of(two)} == {"n-1", "n-2"}


async def test_the_keys_of_a_daemons_revision_are_sorted_as_in_go(two: Whole) -> None:
    await two.client.create(DAEMON, daemon())
    revisions = kind_named("ControllerRevision")
    [made] = await all_become(two.client, revisions, "default", lambda found: len(found) == 1)
    assert json.dumps(made["data"]) == json.dumps(made["data"], sort_keys=True)


async def test_a_daemon_keeps_off_a_tainted_node_until_it_tolerates_it(two: Whole) -> None:
    taint = {"key": "for", "value": "others", "effect": "NoSchedule"}
    await two.client.patch(NODE, "", "n-2", {"spec": {"taints": [taint]}})
    await two.client.create(DAEMON, daemon())
    await becomes(two.client, DAEMON, "default", "d", daemons(1))
    assert {pod["spec"]["nodeName"] for pod in await pods_of(two)} == {"n-1"}
    tolerant = {"spec": {"template": {"spec": {"tolerations": [{"key": "for", "operator": "Exists"}]}}}}
    await two.client.patch(DAEMON, "default", "d", tolerant)
    await becomes(two.client, DAEMON, "default", "d", daemons(2))


async def test_a_daemon_pod_that_succeeded_is_recreated(two: Whole) -> None:
    await two.client.create(DAEMON, daemon())
    await becomes(two.client, DAEMON, "default", "d", daemons(2))
    pod = (await pods_of(two))[0]
    name, node = pod["metadata"]["name"], pod["spec"]["nodeName"]
    await two.client.patch(POD, "default", name, {"status": {"phase": "Succeeded"}}, subresource="status")
    await all_become(two.client, POD, "default", lambda pods: len(pods) == 2 and name not in names_of(pods))
    said = f"Found succeeded daemon pod default/{name} on node {node}, will try to delete it"
    events = await all_become(two.client, kind_named("Event"), "default", lambda all: said in messages(all))
    assert {event["type"] for event in events if event["reason"] == "SucceededDaemonPod"} == {"Normal"}


async def test_a_no_execute_taint_takes_the_daemon_away(two: Whole) -> None:
    await two.client.create(DAEMON, daemon())
    await becomes(two.client, DAEMON, "default", "d", daemons(2))
    await two.client.patch(NODE, "", "n-2", {"spec": {"taints": [{"key": "out", "effect": "NoExecute"}]}})
    left = await all_become(two.client, POD, "default", lambda pods: len(pods) == 1)
    assert left[0]["spec"]["nodeName"] == "n-1"


async def test_a_daemons_template_change_replaces_its_pods_everywhere(two: Whole) -> None:
    await two.client.create(DAEMON, daemon())
    await becomes(two.client, DAEMON, "default", "d", daemons(2))
    before = uids(await pods_of(two))
    await resize(two, DAEMON, "d", "120m")
    await becomes(two.client, DAEMON, "default", "d", daemons(2))
    after = await pods_of(two)
    assert cpus(after) == {"120m"} and before.isdisjoint(uids(after))
    assert {pod["metadata"]["labels"]["pod-template-generation"] for pod in after} == {"2"}


async def test_a_surging_daemon_is_never_missing_on_a_node(two: Whole) -> None:
    body = daemon()
    body["spec"]["updateStrategy"] = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    await two.client.create(DAEMON, body)
    await becomes(two.client, DAEMON, "default", "d", daemons(2))
    before, serving, crowd = uids(await pods_of(two)), [], []
    await resize(two, DAEMON, "d", "120m")

    def rolled(pods: Pods) -> bool:
        live = [pod for pod in pods if not pod["metadata"].get("deletionTimestamp")]
        crowd.append(len(live))
        conditions = [status_of(pod).get("conditions") or [] for pod in live]
        serving.append(
            sum(
                any(condition["type"] == "Ready" and condition["status"] == "True" for condition in of)
                for of in conditions
            )
        )
        return len(pods) == 2 and cpus(pods) == {"120m"}

    after = await all_become(two.client, POD, "default", rolled)
    assert before.isdisjoint(uids(after)) and {pod["spec"]["nodeName"] for pod in after} == {"n-1", "n-2"}
    assert min(serving) == 2 and max(crowd) == 3
    await becomes(two.client, DAEMON, "default", "d", daemons(2))


async def test_an_in_place_daemon_keeps_its_pods(two: Whole) -> None:
    await two.client.create(DAEMON, annotated(daemon()))
    await becomes(two.client, DAEMON, "default", "d", daemons(2))
    before = uids(await pods_of(two))
    await resize(two, DAEMON, "d", "120m")
    await becomes(two.client, DAEMON, "default", "d", daemons(2))
    after = await pods_of(two)
    assert uids(after) == before and in_force("120m", 2)(after)


# --- Deployments


async def test_a_paused_deployment_rolls_when_it_is_resumed(whole: Whole) -> None:
    await whole.client.create(DEPLOYMENT, workload("Deployment", "web", 2))
    await becomes(whole.client, DEPLOYMENT, "default", "web", ready(2))
    before = uids(await pods_of(whole))
    await whole.client.patch(DEPLOYMENT, "default", "web", {"spec": {"paused": True}})
    await resize(whole, DEPLOYMENT, "web", "120m")
    # Scaling still works while paused, and shows that the controller has processed the change of the template.
    await whole.client.patch(DEPLOYMENT, "default", "web", {"spec": {"replicas": 3}})
    await becomes(
        whole.client,
        DEPLOYMENT,
        "default",
        "web",
        lambda obj: (
            seen(obj) and status_of(obj).get("readyReplicas") == 3 and not status_of(obj).get("updatedReplicas")
        ),
    )
    assert cpus(await pods_of(whole)) == {"100m"} and before <= uids(await pods_of(whole))
    await whole.client.patch(DEPLOYMENT, "default", "web", {"spec": {"paused": False}})
    await becomes(whole.client, DEPLOYMENT, "default", "web", ready(3))
    after = await all_become(whole.client, POD, "default", lambda pods: len(pods) == 3)
    assert cpus(after) == {"120m"}


async def test_in_place_changes_and_their_undoing_replace_no_pod(whole: Whole) -> None:
    await whole.client.create(DEPLOYMENT, annotated(workload("Deployment", "web", 2)))
    await becomes(whole.client, DEPLOYMENT, "default", "web", ready(2))
    before = uids(await pods_of(whole))
    for cpu in ("120m", "140m", "120m", "100m"):
        await resize(whole, DEPLOYMENT, "web", cpu)
        after = await all_become(whole.client, POD, "default", in_force(cpu, 2))
        assert uids(after) == before
    sets = (await whole.client.list(SET, "default"))["items"]
    revision = "deployment.kubernetes.io/revision"
    history = {
        int(replica_set["metadata"]["annotations"][revision]): replica_set["spec"]["template"]["spec"]["containers"][0][
            "resources"
        ]["requests"]["cpu"]
        for replica_set in sets
    }
    assert history == {3: "140m", 4: "120m", 5: "100m"}
    assert sorted(replica_set["spec"]["replicas"] for replica_set in sets) == [0, 0, 2]


async def test_recreate_starts_new_pods_only_when_the_old_are_gone(whole: Whole) -> None:
    pod = pod_spec(terminationGracePeriodSeconds=1)
    await whole.client.create(DEPLOYMENT, workload("Deployment", "web", 2, strategy={"type": "Recreate"}, pod=pod))
    await becomes(whole.client, DEPLOYMENT, "default", "web", ready(2))
    mixed: list[set[str]] = []
    await resize(whole, DEPLOYMENT, "web", "120m")

    def rolled(pods: Pods) -> bool:
        # As in Kubernetes, an old pod whose containers have ended is not waited for.
        mixed.append(cpus([pod for pod in pods if pod["status"].get("phase") not in ("Failed", "Succeeded")]))
        return len(pods) == 2 and cpus(pods) == {"120m"}

    await all_become(whole.client, POD, "default", rolled)
    assert {"100m", "120m"} not in mixed


async def test_old_replica_sets_beyond_the_history_limit_are_removed(whole: Whole) -> None:
    await whole.client.create(DEPLOYMENT, workload("Deployment", "web", 1, revisionHistoryLimit=1))
    await becomes(whole.client, DEPLOYMENT, "default", "web", ready(1))
    for cpu in ("110m", "120m", "130m"):
        await resize(whole, DEPLOYMENT, "web", cpu)
        await becomes(whole.client, DEPLOYMENT, "default", "web", ready(1))
    kept = await all_become(whole.client, SET, "default", lambda sets: len(sets) == 2)
    assert {obj["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"] for obj in kept} == {
        "120m",
        "130m",
    }


# --- Jobs


def job(command: list[str], **spec: Any) -> dict[str, Any]:
    pod = pod_spec(restartPolicy="Never")
    pod["containers"][0]["command"] = command
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "j", "namespace": "default"},
        "spec": {**spec, "template": {"spec": pod}},
    }


def ended(word: str) -> Any:
    return lambda obj: any(
        condition["type"] == word and condition["status"] == "True"
        for condition in status_of(obj).get("conditions") or []
    )


async def test_a_job_of_a_billion_indexes_starts_with_the_first_of_them(whole: Whole) -> None:
    done = {"completions": 1_000_000_000, "parallelism": 2, "completionMode": "Indexed"}
    await whole.client.create(JOB, job(["sleep", "1000"], **done))
    pods = await all_become(whole.client, POD, "default", lambda pods: len(pods) == 2)
    assert {pod["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"] for pod in pods} == {"0", "1"}


async def test_a_set_of_two_billion_parallel_pods_is_scaled_down_again(
    whole: Whole, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("podfit.controllers.workloads.sets.statefulset._BURST", 5)
    many = workload("StatefulSet", "db", 2_000_000_000)
    many["spec"]["podManagementPolicy"] = "Parallel"
    await whole.client.create(STATEFUL, many)
    await all_become(whole.client, POD, "default", lambda pods: len(pods) >= 3)
    await whole.client.patch(STATEFUL, "default", "db", {"spec": {"replicas": 1}})
    await all_become(whole.client, POD, "default", lambda pods: len(pods) == 1)


async def test_an_indexed_job_completes_each_index_once(whole: Whole) -> None:
    await whole.client.create(JOB, job(["true"], completionMode="Indexed", completions=4, parallelism=2))
    done = await becomes(whole.client, JOB, "default", "j", ended("Complete"))
    assert status_of(done)["completedIndexes"] == "0-3" and status_of(done)["succeeded"] == 4
    label = "batch.kubernetes.io/job-completion-index"
    assert sorted(pod["metadata"]["labels"][label] for pod in await pods_of(whole)) == ["0", "1", "2", "3"]


async def test_a_job_whose_success_policy_is_met_ends_its_other_pods(whole: Whole) -> None:
    leader = job(["sleep", "3600"], completionMode="Indexed", completions=3, parallelism=3)
    leader["spec"]["successPolicy"] = {"rules": [{"succeededIndexes": "0"}]}
    await whole.client.create(JOB, leader)
    await becomes(whole.client, JOB, "default", "j", lambda obj: status_of(obj).get("ready") == 3)
    first = next(pod for pod in await pods_of(whole) if pod["spec"]["hostname"] == "j-0")
    finished = {"status": {"phase": "Succeeded"}}
    await whole.client.patch(POD, "default", first["metadata"]["name"], finished, subresource="status")
    done = await becomes(whole.client, JOB, "default", "j", ended("Complete"))
    assert status_of(done)["completedIndexes"] == "0" and not status_of(done).get("failed")
    assert {condition["reason"] for condition in status_of(done)["conditions"]} == {"SuccessPolicy"}
    await all_become(whole.client, POD, "default", lambda pods: uids(pods) <= uids([first]))


async def test_a_job_over_its_backoff_limit_fails(whole: Whole) -> None:
    await whole.client.create(JOB, job(["false"], backoffLimit=0))
    done = await becomes(whole.client, JOB, "default", "j", ended("Failed"))
    conditions = {condition["type"]: condition.get("reason") for condition in status_of(done)["conditions"]}
    assert conditions["Failed"] == conditions["FailureTarget"] == "BackoffLimitExceeded"
    assert status_of(done)["failed"] == 1 and "completionTime" not in status_of(done)


async def test_suspending_a_job_ends_its_pods_and_counts_no_failure(whole: Whole) -> None:
    await whole.client.create(JOB, job(["sleep", "3600"], backoffLimit=0, parallelism=2, completions=2))
    await becomes(whole.client, JOB, "default", "j", lambda obj: status_of(obj).get("ready") == 2)
    await whole.client.patch(JOB, "default", "j", {"spec": {"suspend": True}})
    await all_become(whole.client, POD, "default", lambda pods: not pods)
    asleep = await becomes(whole.client, JOB, "default", "j", ended("Suspended"))
    assert "startTime" not in status_of(asleep) and not status_of(asleep).get("failed")
    await whole.client.patch(JOB, "default", "j", {"spec": {"suspend": False}})
    awake = await becomes(whole.client, JOB, "default", "j", lambda obj: status_of(obj).get("ready") == 2)
    assert not status_of(awake).get("failed") and status_of(awake)["startTime"]


async def test_a_finished_job_without_time_to_live_goes_with_its_pods(whole: Whole) -> None:
    await whole.client.create(JOB, job(["true"], ttlSecondsAfterFinished=0))
    await becomes(whole.client, JOB, "default", "j", lambda obj: obj is None)
    await all_become(whole.client, POD, "default", lambda pods: not pods)


async def test_a_deployment_is_rescaled_in_the_middle_of_a_roll_out_by_the_shares_of_its_sets(whole: Whole) -> None:
    # The new template fits no node, so the roll-out stops at 8 old and 5 new pods of 10: 3 more and 2 fewer.
    body = workload("Deployment", "web", 10, pod=pod_spec("1m", "1Mi", node=""))
    body["spec"]["strategy"] = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 3, "maxUnavailable": 2}}
    await whole.client.create(DEPLOYMENT, body)
    await becomes(whole.client, DEPLOYMENT, "default", "web", ready(10))
    change = {"spec": {"template": {"spec": {"nodeSelector": {"no": "where"}}}}}
    await whole.client.patch(DEPLOYMENT, "default", "web", change)

    def sizes(*wanted: int) -> Any:
        return lambda sets: sorted(replica_set["spec"]["replicas"] for replica_set in sets) == sorted(wanted)

    await all_become(whole.client, SET, "default", sizes(8, 5))
    await whole.client.patch(DEPLOYMENT, "default", "web", {"spec": {"replicas": 15}})
    sets = await all_become(whole.client, SET, "default", sizes(11, 7))
    aims = {replica_set["metadata"]["annotations"]["deployment.kubernetes.io/max-replicas"] for replica_set in sets}
    assert aims == {"18"}


async def test_a_paused_deployment_grows_from_nothing_with_its_last_template(whole: Whole) -> None:
    await whole.client.create(DEPLOYMENT, workload("Deployment", "web", 0))
    await becomes(whole.client, DEPLOYMENT, "default", "web", seen)
    await whole.client.patch(DEPLOYMENT, "default", "web", {"spec": {"paused": True}})
    await resize(whole, DEPLOYMENT, "web", "120m")
    await whole.client.patch(DEPLOYMENT, "default", "web", {"spec": {"replicas": 2}})
    pods = await all_become(whole.client, POD, "default", lambda pods: len(pods) == 2)
    assert cpus(pods) == {"100m"}


async def test_a_deployment_reports_that_its_replica_set_cannot_be_created(whole: Whole) -> None:
    meta = {"name": "none", "namespace": "default"}
    spec = {"hard": {"count/replicasets.apps": "0"}}
    await whole.client.create(QUOTA, {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": meta, "spec": spec})
    await becomes(whole.client, QUOTA, "default", "none", lambda quota: "used" in status_of(quota))
    await whole.client.create(DEPLOYMENT, workload("Deployment", "web", 2))
    one = await becomes(
        whole.client, DEPLOYMENT, "default", "web", lambda quota: bool(status_of(quota).get("conditions"))
    )
    (found,) = status_of(one)["conditions"]
    assert (found["type"], found["status"], found["reason"]) == ("Progressing", "False", "ReplicaSetCreateError")
    assert found["message"].startswith('Failed to create new replica set "web-')
    assert "is forbidden: exceeded quota: none, requested: count/replicasets.apps=1" in found["message"]
    events = await all_become(
        whole.client,
        kind_named("Event"),
        "default",
        lambda all: any(event["reason"] == found["reason"] for event in all),
    )
    assert any((event["reason"], event["message"]) == (found["reason"], found["message"]) for event in events)


# --- StatefulSets


async def test_a_parallel_stateful_set_does_not_wait_for_its_first_pod(whole: Whole) -> None:
    # On a node that does not exist no pod becomes ready: with ordered management there would be only one.
    pod = pod_spec(node="", nodeSelector={"no": "where"})
    body = workload("StatefulSet", "db", 3, serviceName="db", podManagementPolicy="Parallel", pod=pod)
    await whole.client.create(STATEFUL, body)
    pods = await all_become(whole.client, POD, "default", lambda pods: len(pods) == 3)
    assert {candidate["metadata"]["name"] for candidate in pods} == {"db-0", "db-1", "db-2"}


async def test_a_stateful_set_leaves_pods_alone_that_do_not_have_its_names(whole: Whole) -> None:
    names = ("stranger", "other-0", "db-7-x", "db-db-0")
    for name in names:
        meta = {"name": name, "namespace": "default", "labels": {"app": "db"}}
        await whole.client.create(POD, {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": pod_spec()})
    await whole.client.create(STATEFUL, workload("StatefulSet", "db", 2, serviceName="db"))
    await becomes(whole.client, STATEFUL, "default", "db", ready(2))
    await whole.client.patch(STATEFUL, "default", "db", {"spec": {"replicas": 1}})
    await becomes(whole.client, STATEFUL, "default", "db", ready(1))
    left = {obj["metadata"]["name"]: obj["metadata"].get("ownerReferences") for obj in await pods_of(whole)}
    assert {name: left.pop(name) for name in names} == dict.fromkeys(names) and set(left) == {"db-0"}


async def test_a_partition_holds_the_lower_ordinals_back(whole: Whole) -> None:
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}
    await whole.client.create(STATEFUL, workload("StatefulSet", "db", 3, serviceName="db", updateStrategy=strategy))
    await becomes(whole.client, STATEFUL, "default", "db", ready(3))
    await resize(whole, STATEFUL, "db", "120m")
    await becomes(
        whole.client,
        STATEFUL,
        "default",
        "db",
        lambda obj: (
            seen(obj) and status_of(obj).get("updatedReplicas") == 1 and status_of(obj).get("readyReplicas") == 3
        ),
    )
    sizes = {pod["metadata"]["name"]: cpus([pod]) for pod in await pods_of(whole)}
    assert sizes == {"db-0": {"100m"}, "db-1": {"100m"}, "db-2": {"120m"}}
    # A pod below the partition that is lost is recreated with the old revision.
    lost = next(pod for pod in await pods_of(whole) if pod["metadata"]["name"] == "db-0")
    await whole.client.delete(POD, "default", "db-0")
    back = await becomes(
        whole.client,
        POD,
        "default",
        "db-0",
        lambda obj: obj is not None and obj["metadata"]["uid"] != lost["metadata"]["uid"],
    )
    assert back is not None and cpus([back]) == {"100m"}


async def test_a_second_in_place_change_during_the_first_replaces_no_pod(whole: Whole) -> None:
    await whole.client.create(STATEFUL, annotated(workload("StatefulSet", "db", 3, serviceName="db")))
    await becomes(whole.client, STATEFUL, "default", "db", ready(3))
    before = uids(await pods_of(whole))
    await resize(whole, STATEFUL, "db", "120m")
    await becomes(
        whole.client,
        STATEFUL,
        "default",
        "db",
        lambda stateful: seen(stateful) and status_of(stateful).get("updatedReplicas") == 1,
    )
    await resize(whole, STATEFUL, "db", "140m")
    await becomes(whole.client, STATEFUL, "default", "db", ready(3))
    after = await pods_of(whole)
    assert uids(after) == before and in_force("140m", 3)(after)


def claiming(**policy: str) -> dict[str, Any]:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    template = {"metadata": {"name": "data"}, "spec": spec}
    more = {"persistentVolumeClaimRetentionPolicy": policy} if policy else {}
    return workload("StatefulSet", "db", 2, serviceName="db", volumeClaimTemplates=[template], **more)


def names(claims: Pods) -> set[str]:
    return {claim["metadata"]["name"] for claim in claims}


async def test_claims_outlive_pods_and_set_by_default(whole: Whole) -> None:
    await whole.client.create(STATEFUL, claiming())
    await becomes(whole.client, STATEFUL, "default", "db", ready(2))
    await whole.client.patch(STATEFUL, "default", "db", {"spec": {"replicas": 1}})
    await all_become(whole.client, POD, "default", lambda pods: len(pods) == 1)
    await whole.client.delete(STATEFUL, "default", "db", {"propagationPolicy": "Background"})
    await all_become(whole.client, POD, "default", lambda pods: not pods)
    claims = (await whole.client.list(CLAIM, "default"))["items"]
    assert names(claims) == {"data-db-0", "data-db-1"}
    assert not any(claim["metadata"].get("ownerReferences") for claim in claims)


async def test_claims_go_with_the_pod_that_is_scaled_away_and_with_the_set_where_it_says_so(whole: Whole) -> None:
    await whole.client.create(STATEFUL, claiming(whenScaled="Delete", whenDeleted="Delete"))
    await becomes(whole.client, STATEFUL, "default", "db", ready(2))
    await whole.client.patch(STATEFUL, "default", "db", {"spec": {"replicas": 1}})
    await all_become(whole.client, CLAIM, "default", lambda claims: names(claims) == {"data-db-0"})
    await whole.client.delete(STATEFUL, "default", "db", {"propagationPolicy": "Background"})
    await all_become(whole.client, CLAIM, "default", lambda claims: not claims)
