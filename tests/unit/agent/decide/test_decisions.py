"""The agent's decisions, case by case."""

from __future__ import annotations

from typing import Any

import pytest

from podfit.agent.decide.node.placement import matches
from podfit.agent.decide.pod import lifecycle, status
from podfit.agent.decide.pod.lifecycle import Seen
from podfit.agent.decide.resize import kernel, settle
from podfit.agent.decide.resize.allocate import Candidate, Policy, decide, queue_key, victims
from podfit.agent.decide.resize.conditions import ResizeConditions, from_status
from podfit.agent.decide.resize.sized import Sized
from podfit.agent.runtimes.values import EXITED, RUNNING, ContainerState, Limits, Machine
from podfit.api.quantity import Quantity
from podfit.api.resize.room import Room
from podfit.api.resize.states import Allocated, desired_of, effective
from podfit.api.resize.verdicts import Deferred, Granted, Infeasible, Unchanged
from podfit.kit.clock import rfc3339


def pod(requests: dict[str, str], limits: dict[str, str] | None = None, **more: Any) -> dict[str, Any]:
    resources = {"requests": requests, **({"limits": limits} if limits else {})}
    spec = {"containers": [{"name": "c", "resources": resources, **more.pop("container", {})}], **more.pop("spec", {})}
    return {"metadata": {"name": "p", "uid": "u", **more}, "spec": spec}


def holding(cpu: str, memory: str) -> Allocated:
    return Allocated({"c": {"requests": {"cpu": cpu, "memory": memory}}})


def room(cpu: int, memory: int, used_cpu: int = 0, used_memory: int = 0) -> Room:
    return Room(
        {"cpu": Quantity.of_milli(cpu), "memory": Quantity.of_units(memory)},
        {"cpu": Quantity.of_milli(used_cpu), "memory": Quantity.of_units(used_memory)},
    )


def verdict(
    body: dict[str, Any], had: Allocated, space: Room, qos: str = "Burstable", policy: Policy | None = None
) -> Any:
    return decide(body, desired_of(body), had, space, qos, policy or Policy())


def test_what_fits_beside_the_others_is_granted() -> None:
    assert verdict(pod({"cpu": "500m", "memory": "1"}), holding("1", "1"), room(1000, 10, 500)) == Granted()


@pytest.mark.parametrize(
    ("cpu", "expected"),
    [("1", Unchanged), ("500m", Granted), ("1001m", Deferred), ("1500m", Deferred), ("3", Infeasible)],
)
def test_a_pressure_defers_what_grows_but_not_what_shrinks_or_never_fits(cpu: str, expected: type) -> None:
    body = pod({"cpu": cpu, "memory": "1"})
    why = ("Evicted", "The node had condition: [DiskPressure]. ")
    space = room(2000, 10, 900)
    found = decide(body, desired_of(body), holding("1", "1"), space, "Burstable", Policy(), kept_out=why)
    assert isinstance(found, expected)
    if isinstance(found, Deferred):
        assert (found.reason, found.message, found.missing) == (*why, ())


def test_another_spelling_of_the_same_size_changes_nothing() -> None:
    assert verdict(pod({"cpu": "0.1", "memory": "65536Ki"}), holding("100m", "64Mi"), room(1, 1)) == Unchanged()


def test_cpu_is_reported_before_memory() -> None:
    body = pod({"cpu": "700m", "memory": "900"})
    refused = verdict(body, holding("1m", "1"), room(1000, 1000, 500, 500))
    assert isinstance(refused, Deferred)
    assert refused.reason == "OutOfcpu"
    assert refused.message == "Node didn't have enough resource: cpu, requested: 700, used: 500, capacity: 1000"
    assert [short.resource for short in refused.missing] == ["cpu", "memory"]


def test_more_than_the_whole_node_is_infeasible_unless_the_node_is_told_to_wait() -> None:
    body = pod({"cpu": "3", "memory": "1"})
    refused = verdict(body, holding("1", "1"), room(2000, 10))
    assert refused == Infeasible(
        "insufficient_node_allocatable", "Node didn't have enough capacity: cpu, requested: 3000, capacity: 2000"
    )
    waiting = verdict(body, holding("1", "1"), room(2000, 10), policy=Policy(beyond_allocatable="Deferred"))
    assert isinstance(waiting, Deferred)


@pytest.mark.parametrize(
    ("policy", "qos", "detail"),
    [
        (Policy(cpu_manager="static"), "Guaranteed", "guaranteed_pod_cpu_manager_static_policy"),
        (Policy(memory_manager="Static"), "Guaranteed", "guaranteed_pod_memory_manager_static_policy"),
        (Policy(swap=True), "Burstable", "swap_limitation"),
    ],
)
def test_a_node_that_cannot_resize_says_why(policy: Policy, qos: str, detail: str) -> None:
    refused = verdict(pod({"cpu": "2m", "memory": "2"}), holding("1m", "1"), room(1000, 1000), qos, policy)
    assert isinstance(refused, Infeasible) and refused.detail == detail


def test_static_managers_leave_burstable_pods_alone() -> None:
    policy = Policy(cpu_manager="static", memory_manager="Static")
    assert verdict(pod({"cpu": "2m", "memory": "2"}), holding("1m", "1"), room(1000, 1000), policy=policy) == Granted()


def test_swap_does_not_mind_a_container_that_restarts_for_memory() -> None:
    restarting = {"resizePolicy": [{"resourceName": "memory", "restartPolicy": "RestartContainer"}]}
    body = pod({"cpu": "1m", "memory": "2"}, container=restarting)
    assert verdict(body, holding("1m", "1"), room(1000, 1000), policy=Policy(swap=True)) == Granted()


def test_a_vm_cannot_get_a_fraction_of_a_vcpu() -> None:
    limits = {"resources": {"requests": {"cpu": "500m", "memory": "1"}, "limits": {"cpu": "1500m", "memory": "1"}}}
    body = pod({"cpu": "500m", "memory": "1"}, container=limits)
    assert verdict(body, holding("1", "1"), room(4000, 1000)) == Granted()
    body["spec"]["runtimeClassName"] = "vm"
    refused = verdict(body, holding("1", "1"), room(4000, 1000))
    assert isinstance(refused, Infeasible) and "set it to 1 or 2" in refused.message
    body["spec"]["containers"][0]["resources"]["limits"]["cpu"] = "2"
    assert verdict(body, holding("1", "1"), room(4000, 1000)) == Granted()


def _vm(cpu: str, memory: str) -> Any:
    size = {"cpu": cpu, "memory": memory}
    return pod(size, container={"resources": {"requests": size, "limits": size}})


@pytest.mark.parametrize(
    ("size", "words"),
    [
        (("9", "300Mi"), "podfit.dev/vm-max-vcpus"),
        (("1", "5Gi"), "podfit.dev/vm-max-memory"),
        (("1", "3000Mi"), "podfit.dev/vm-slots"),
        (("1", "32Mi"), "the least is 64 MiB"),
        (("2500m", "300Mi"), "set it to 2 or 3"),
    ],
)
def test_a_size_that_a_running_vm_cannot_have_is_infeasible_and_says_what_to_set(
    size: tuple[str, str], words: str
) -> None:
    machines = {"c": Machine(boot_memory_mib=256, max_memory_mib=4096, max_vcpus=8, slots=1)}
    desired = desired_of(_vm(*size))
    before, plenty = holding("1", "256Mi"), room(100_000, 100 << 30)
    refused = decide(_vm(*size), desired, before, plenty, "Guaranteed", Policy(), running_machines=machines)
    assert isinstance(refused, Infeasible) and words in refused.message


def test_a_vm_can_be_brought_to_its_very_maxima() -> None:
    machines = {"c": Machine(boot_memory_mib=256, max_memory_mib=1024, max_vcpus=4, slots=16)}
    body, plenty = _vm("4", "1Gi"), room(100_000, 100 << 30)
    before = holding("1", "256Mi")
    assert (
        decide(body, desired_of(body), before, plenty, "Guaranteed", Policy(), running_machines=machines) == Granted()
    )


def test_a_static_pod_is_never_resized() -> None:
    body = pod({"cpu": "2m", "memory": "1"}, annotations={"kubernetes.io/config.mirror": "x"})
    refused = verdict(body, holding("1m", "1"), room(1000, 1000))
    assert isinstance(refused, Infeasible) and refused.detail == "static_pod"


def test_the_queue_prefers_shrinking_then_priority_then_guaranteed_then_age() -> None:
    plain, important = pod({}), pod({}, spec={"priority": 10})
    shrinking = queue_key(plain, False, "Burstable", None)
    keys = [
        shrinking,
        queue_key(important, True, "Burstable", 9.0),
        queue_key(plain, True, "Guaranteed", 9.0),
        queue_key(plain, True, "Burstable", 1.0),
        queue_key(plain, True, "Burstable", 2.0),
        queue_key(plain, True, "Burstable", None),
    ]
    assert sorted(keys, key=lambda key: key) == keys


def candidate(uid: str, qos: str, cpu: int, critical: bool = False) -> Candidate:
    return Candidate(uid, qos, 0, critical, {"cpu": Quantity.of_milli(cpu)})


def test_the_burstable_pod_that_suffices_goes_and_nobody_else() -> None:
    lacking = decide(
        pod({"cpu": "1100m"}),
        desired_of(pod({"cpu": "1100m"})),
        holding("100m", "0"),
        room(2000, 10, 1500),
        "Burstable",
        Policy(),
    )
    assert isinstance(lacking, Deferred)
    others = [candidate("be", "BestEffort", 0), candidate("burst", "Burstable", 700), candidate("g", "Guaranteed", 800)]
    assert victims(2_000_001_000, lacking.missing, others) == ["burst"]
    assert victims(2_000_001_000, lacking.missing, [candidate("c", "Burstable", 9000, critical=True)]) != []
    assert victims(0, lacking.missing, [candidate("c", "Burstable", 9000, critical=True)]) == []


# --- numbers --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("milli", "shares", "quota"),
    [(0, 2, None), (1, 2, 1000), (2, 2, 1000), (10, 10, 1000), (100, 102, 10_000), (300_000, 262_144, 30_000_000)],
)
def test_milli_cpus_become_shares_and_quota(milli: int, shares: int, quota: int | None) -> None:
    assert (kernel.shares(milli), kernel.quota_us(milli)) == (shares, quota)


def test_a_pod_is_limited_only_when_all_its_containers_are() -> None:
    body = {
        "spec": {
            "containers": [
                {"name": "a", "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "1", "memory": "8Ki"}}},
                {"name": "b", "resources": {"limits": {"memory": "8Ki"}}},
            ]
        }
    }
    assert kernel.pod_cgroup(Sized(body, desired_of(body)), "Burstable") == Limits(1024, None, 16384)


def test_a_container_without_limits_has_those_of_its_pod() -> None:
    level = {"limits": {"cpu": "1", "memory": "1Gi"}}
    own = {"limits": {"cpu": "500m"}, "requests": {"cpu": "100m"}}
    assert effective(own, level) == {"limits": {"cpu": "500m", "memory": "1Gi"}, "requests": {"cpu": "100m"}}


def test_the_status_shows_the_kernel_not_the_wish() -> None:
    asked = {"limits": {"cpu": "400m", "memory": "128Mi"}, "requests": {"cpu": "300m", "memory": "64Mi"}}
    told = {"limits": {"cpu": "200m", "memory": "64Mi"}, "requests": {"cpu": "100m", "memory": "32Mi"}}
    actual = Limits(102, 20_000, 64 << 20)
    assert settle.container_resources(asked, told, actual) == told
    assert settle.container_resources(asked, told, None) == asked


def test_values_below_the_kernels_minimum_show_as_they_were_asked() -> None:
    asked = {"limits": {"cpu": "5m"}, "requests": {"cpu": "1m"}}
    assert settle.container_resources(asked, asked, Limits(2, 1000, None)) == asked


def test_a_size_that_is_no_whole_number_of_pages_shows_as_it_was_asked() -> None:
    asked = {"limits": {"memory": "100M"}}
    assert settle.container_resources(asked, asked, Limits(2, None, 99_999_744)) == {"limits": {"memory": "100000000"}}


# --- lifecycle ------------------------------------------------------------------------------------------------------


def ran(name: str, state: str = RUNNING, code: int = 0) -> Seen:
    last = ContainerState("id-" + name, name, 0, state, "i", "i", 0.0, exit_code=code)
    return Seen(name, last, started=state == RUNNING, ready=state == RUNNING)


def steps(spec: dict[str, Any], *seen: Seen, wanted: tuple[str, ...] = (), delay: float = 0.0) -> lifecycle.Next:
    known = {one.name: one for one in seen}
    return lifecycle.next_steps({"spec": spec}, known, lambda one: delay, frozenset(wanted))


def test_containers_start_when_all_init_containers_are_done() -> None:
    spec = {"initContainers": [{"name": "i"}, {"name": "s", "restartPolicy": "Always"}], "containers": [{"name": "c"}]}
    assert steps(spec, Seen("i"), Seen("s"), Seen("c")).start == ("i",)
    assert steps(spec, ran("i", EXITED), Seen("s"), Seen("c")).start == ("s",)
    assert steps(spec, ran("i", EXITED), ran("s"), Seen("c")).start == ("c",)


@pytest.mark.parametrize(
    ("policy", "code", "again"),
    [("Always", 0, True), ("OnFailure", 0, False), ("OnFailure", 1, True), ("Never", 1, False)],
)
def test_the_restart_policy_decides(policy: str, code: int, again: bool) -> None:
    spec = {"restartPolicy": policy, "containers": [{"name": "c"}]}
    following = steps(spec, ran("c", EXITED, code))
    assert following.start == (("c",) if again else ())
    assert following.over is not again


def rule(operator: str, *values: int, action: str = "Restart") -> dict[str, Any]:
    return {"action": action, "exitCodes": {"operator": operator, "values": list(values)}}


@pytest.mark.parametrize(
    ("pod_policy", "own", "code", "again"),
    [
        ("Never", {"restartPolicy": "Always"}, 0, True),
        ("Never", {"restartPolicy": "OnFailure"}, 1, True),
        ("Never", {"restartPolicy": "OnFailure"}, 0, False),
        ("Always", {"restartPolicy": "Never"}, 1, False),
        ("Never", {"restartPolicy": "Never", "restartPolicyRules": [rule("In", 42)]}, 42, True),
        ("Never", {"restartPolicy": "Never", "restartPolicyRules": [rule("In", 42)]}, 41, False),
        ("Never", {"restartPolicy": "Never", "restartPolicyRules": [rule("NotIn", 0, 1)]}, 2, True),
        ("Never", {"restartPolicy": "OnFailure", "restartPolicyRules": [rule("In", 9)]}, 1, True),
    ],
)
def test_a_containers_own_policy_and_rules_go_before_the_pods(
    pod_policy: str, own: dict[str, Any], code: int, again: bool
) -> None:
    spec = {"restartPolicy": pod_policy, "containers": [{"name": "c", **own}, {"name": "d", "restartPolicy": "Never"}]}
    seen = (ran("c", EXITED, code), ran("d", EXITED))
    following = steps(spec, *seen)
    assert following.start == (("c",) if again else ())
    assert following.over is not again
    shown = "Running" if again else "Failed" if code else "Succeeded"
    assert lifecycle.phase({"spec": spec}, {one.name: one for one in seen}, False) == shown


@pytest.mark.parametrize(("own", "over"), [({}, False), ({"restartPolicy": "Never"}, True)])
def test_an_init_container_may_have_a_policy_of_its_own(own: dict[str, Any], over: bool) -> None:
    spec = {"restartPolicy": "Always", "initContainers": [{"name": "i", **own}], "containers": [{"name": "c"}]}
    following = steps(spec, ran("i", EXITED, 1), Seen("c"))
    assert (following.over, following.start) == (over, () if over else ("i",))
    shown = lifecycle.phase({"spec": spec}, {"i": ran("i", EXITED, 1), "c": Seen("c")}, False)
    assert shown == ("Failed" if over else "Pending")


def test_a_container_that_looks_into_a_pod_starts_once_and_counts_for_nothing() -> None:
    spec = {"initContainers": [{"name": "i"}], "containers": [{"name": "c"}], "ephemeralContainers": [{"name": "e"}]}
    assert steps(spec, ran("i"), Seen("c"), Seen("e")).start == ("e",)
    assert steps(spec, ran("i", EXITED), ran("c"), ran("e", EXITED, 1)).start == ()
    job = {**spec, "restartPolicy": "Never"}
    assert steps(job, ran("i", EXITED), ran("c", EXITED), ran("e")).over
    seen = {one.name: one for one in (ran("i", EXITED), ran("c", EXITED), ran("e", EXITED, 1))}
    assert lifecycle.phase({"spec": job}, seen, False) == "Succeeded"


def test_a_container_ended_for_a_resize_starts_whatever_the_policy() -> None:
    spec = {"restartPolicy": "OnFailure", "containers": [{"name": "c"}]}
    assert steps(spec, ran("c", EXITED), wanted=("c",), delay=100).start == ("c",)


def test_a_crashing_container_waits() -> None:
    spec = {"containers": [{"name": "c"}]}
    assert steps(spec, ran("c", EXITED, 1), delay=10).later == (("c", 10),)


@pytest.mark.parametrize(
    ("policy", "seen", "phase"),
    [
        ("Always", Seen("c"), "Pending"),
        ("Always", ran("c"), "Running"),
        ("Always", ran("c", EXITED), "Running"),
        ("OnFailure", ran("c", EXITED), "Succeeded"),
        ("OnFailure", ran("c", EXITED, 1), "Running"),
        ("Never", ran("c", EXITED, 1), "Failed"),
    ],
)
def test_the_phase_follows_the_containers(policy: str, seen: Seen, phase: str) -> None:
    spec = {"restartPolicy": policy, "containers": [{"name": "c"}]}
    assert lifecycle.phase({"spec": spec}, {"c": seen}, False) == phase


@pytest.mark.parametrize("policy", ["OnFailure", "Always"])
def test_a_pod_whose_container_a_resize_restarts_is_not_over(policy: str) -> None:
    spec = {"restartPolicy": policy, "containers": [{"name": "c"}]}
    assert lifecycle.phase({"spec": spec}, {"c": ran("c", EXITED)}, False, frozenset({"c"})) == "Running"


# --- conditions and patches -----------------------------------------------------------------------------------------


def test_a_condition_keeps_its_time_while_its_reason_holds() -> None:
    first = ResizeConditions().refused("Deferred", "a", 2, 10.0)
    second = first.refused("Deferred", "b", 3, 20.0)
    assert second.pending is not None
    assert (second.pending.since, second.pending.message, second.pending.generation) == (10.0, "b", 3)
    assert second.refused("Infeasible", "c", 4, 30.0).pending.since == 30.0  # type: ignore[union-attr]


def test_conditions_survive_the_way_through_the_api() -> None:
    conditions = ResizeConditions().refused("Deferred", "no room", 3, 1000.0).failed("busy", 2, 2000.0)
    assert from_status({"conditions": conditions.to_json()}) == conditions


def test_a_condition_tells_when_it_was_found_with_its_present_words() -> None:
    first = ResizeConditions().refused("Deferred", "a", 2, 1000.0)
    assert first.refused("Deferred", "a", 2, 1010.0) == first
    (shown,) = first.refused("Deferred", "b", 2, 1020.0).to_json()
    assert (shown["lastTransitionTime"], shown["lastProbeTime"]) == (rfc3339(1000.0), rfc3339(1020.0))
    (shown,) = first.refused("Deferred", "a", 3, 1030.0).refused("Infeasible", "c", 4, 1040.0).to_json()
    assert (shown["lastTransitionTime"], shown["lastProbeTime"]) == (rfc3339(1040.0), rfc3339(1040.0))
    failing = ResizeConditions().granted(2, 1000.0).failed("a", 2, 1001.0).failed("b", 2, 1015.0)
    (shown,) = failing.to_json()
    assert (shown["lastTransitionTime"], shown["lastProbeTime"]) == (rfc3339(1001.0), rfc3339(1015.0))
    assert from_status({"conditions": [shown]}) == failing


def test_a_patch_holds_only_what_changed() -> None:
    before = {
        "phase": "Running",
        "conditions": [{"type": "A", "status": "True", "reason": "x"}, {"type": "B", "status": "True"}],
        "resources": {"limits": {"cpu": "1"}, "requests": {"cpu": "1"}},
    }
    after = {
        "phase": "Running",
        "conditions": [{"type": "A", "status": "True"}],
        "resources": {"limits": {"cpu": "2"}},
    }
    assert status.patch(before, after, "u") == {
        "metadata": {"uid": "u"},
        "status": {
            "$setElementOrder/conditions": [{"type": "A"}],
            "conditions": [{"type": "A", "status": "True", "reason": None}, {"$patch": "delete", "type": "B"}],
            "resources": {"limits": {"cpu": "2"}, "requests": None},
        },
    }
    assert status.patch(before, before, "u") is None


def test_node_affinity_is_checked_as_the_scheduler_does() -> None:
    terms = [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a", "b"]}]}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    spec = {"affinity": {"nodeAffinity": required}}
    assert matches(spec, {"zone": "a"}, "n")
    assert not matches(spec, {"zone": "c"}, "n")
    fields = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}]
    named = {
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": fields}}}
    }
    assert matches(named, {}, "n") and not matches(named, {}, "m")


@pytest.mark.parametrize(
    ("limits", "more", "size_limit", "size"),
    [
        (["64Mi"], {}, 0, 64 << 20),
        (["64Mi", "32Mi"], {}, 0, 96 << 20),
        (["64Mi", None], {}, 0, 1 << 30),
        (["64Mi", None], {"resources": {"limits": {"memory": "80Mi"}}}, 0, 80 << 20),
        (["64Mi"], {"overhead": {"memory": "6Mi"}}, 0, 70 << 20),
        (["64Mi"], {}, 8 << 20, 8 << 20),
        (["64Mi"], {}, 80 << 20, 64 << 20),
        (["4Gi"], {}, 0, 1 << 30),
        ([None], {}, 2 << 30, 1 << 30),
    ],
)
def test_a_volume_in_memory_is_no_larger_than_anything_around_it(
    limits: list[str | None], more: dict[str, Any], size_limit: int, size: int
) -> None:
    containers = [
        {"name": f"c{number}", "resources": {"limits": {"memory": one}} if one else {}}
        for number, one in enumerate(limits)
    ]
    assert kernel.memory_volume_bytes({"spec": {"containers": containers, **more}}, size_limit, 1 << 30) == size


def test_a_volume_in_memory_on_a_node_that_does_not_know_itself_has_no_size() -> None:
    assert kernel.memory_volume_bytes({"spec": {"containers": [{"name": "c"}]}}, 0, 0) == 0
