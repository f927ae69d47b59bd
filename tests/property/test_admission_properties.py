"""Properties of admission for all inputs: quotas are never exceeded, defaults are stable, rules cover what they
allow.
"""

from __future__ import annotations

from copy import deepcopy

from hypothesis import given
from hypothesis import strategies as st

from podfit.api.quantity import Quantity
from podfit.api.quotas import growth, usage
from podfit.api.registry.kinds import POD
from podfit.api.status import ApiError
from podfit.apiserver.admission.base import Attributes
from podfit.apiserver.admission.limits.limit_checks import pod_violations
from podfit.apiserver.admission.limits.limit_ranger import apply_defaults
from podfit.apiserver.admission.limits.resource_quota import QuotaUsage
from podfit.apiserver.auth.authorize import Action
from podfit.apiserver.auth.node import NodeGraph
from podfit.apiserver.auth.roles.rules import Rule, uncovered
from podfit.apiserver.request import ADMIN

cpu = st.integers(1, 4000).map(lambda milli: f"{milli}m")
resources = st.fixed_dictionaries({}, optional={"requests": st.fixed_dictionaries({"cpu": cpu})}).map(dict)


def pod(*containers: dict[str, object]) -> dict[str, object]:
    rows = [{"name": f"c{i}", "resources": each} for i, each in enumerate(containers)]
    return {"metadata": {"name": "p", "namespace": "ns"}, "spec": {"containers": rows}}


@given(st.lists(st.lists(cpu, min_size=1, max_size=3), max_size=12), st.integers(0, 20000))
def test_quota_is_never_overdrawn_and_counts_exactly_what_was_admitted(pods, hard):
    status = {"hard": {"cpu": f"{hard}m", "pods": "5"}, "used": {"cpu": "0", "pods": "0"}}
    ledger = QuotaUsage([{"metadata": {"name": "q"}, "spec": {"hard": status["hard"]}, "status": status}])
    admitted = total = 0
    for requests in pods:
        obj = pod(*({"requests": {"cpu": each}} for each in requests))
        try:
            ledger.charge(Attributes("CREATE", POD, "", "ns", "p", obj, None, ADMIN))
        except ApiError:
            continue
        admitted += 1
        total += sum(int(each[:-1]) for each in requests)
    assert total <= hard and admitted <= 5
    changed = ledger.changed()
    if admitted:
        used = changed[0]["status"]["used"]
        assert Quantity.parse(used["cpu"]).milli == total and used["pods"] == str(admitted)
    else:
        assert changed == []


@given(cpu, cpu)
def test_growth_is_never_negative_and_reaches_the_new_size(old, new):
    before, after = (usage("", "pods", pod({"requests": {"cpu": each}})) for each in (old, new))
    more = growth(after, before)
    assert all(amount.nanos >= 0 for amount in more.values())
    assert (before["cpu"] + more["cpu"]).nanos == max(before["cpu"].nanos, after["cpu"].nanos)


@given(st.lists(resources, min_size=1, max_size=3), cpu, cpu)
def test_defaults_are_applied_once_and_keep_what_is_given(containers, request_default, limit_default):
    item = {"type": "Container", "default": {"cpu": limit_default}, "defaultRequest": {"cpu": request_default}}
    limit_range = {"spec": {"limits": [item]}}
    given_pod = pod(*containers)
    defaulted = deepcopy(given_pod)
    apply_defaults(defaulted, limit_range)
    for before, after in zip(given_pod["spec"]["containers"], defaulted["spec"]["containers"], strict=True):
        assert set(after["resources"]) == {"limits", "requests"}
        for field, values in before["resources"].items():
            assert after["resources"][field] == values
    again = deepcopy(defaulted)
    apply_defaults(again, limit_range)
    assert again == defaulted


@given(cpu, cpu, cpu)
def test_container_within_its_bounds_is_never_refused(one, two, three):
    least, size, most = sorted((one, two, three), key=lambda each: int(each[:-1]))
    item = {"type": "Container", "min": {"cpu": least}, "max": {"cpu": most}}
    amounts = {"requests": {"cpu": size}, "limits": {"cpu": size}}
    assert pod_violations(pod(amounts), [item]) == []


words = st.sampled_from(["a", "b", "*"])
rules = st.builds(
    Rule,
    st.lists(words, min_size=1, max_size=2).map(tuple),
    st.lists(words, min_size=1, max_size=2).map(tuple),
    st.lists(st.sampled_from(["x", "y", "x/s", "*/s", "*"]), min_size=1, max_size=2).map(tuple),
    st.lists(st.sampled_from(["n", "m"]), max_size=2).map(tuple),
)
actions = st.builds(
    Action,
    st.sampled_from(["a", "b", "c"]),
    st.sampled_from(["a", "b", "c"]),
    st.sampled_from(["x", "y"]),
    st.sampled_from(["", "s"]),
    st.just("ns"),
    st.sampled_from(["", "n", "m"]),
)


@given(st.lists(rules, max_size=3), rules, actions)
def test_a_role_that_covers_a_rule_allows_everything_it_allows(held, wanted, action):
    if not uncovered(held, [wanted]) and wanted.allows(action):
        assert any(rule.allows(action) for rule in held)


@given(
    st.lists(st.tuples(st.integers(0, 4), st.sampled_from(["", "n1", "n2"]), st.sampled_from(["s", "t"])), max_size=20)
)
def test_the_graph_after_any_changes_equals_the_graph_of_the_current_objects(steps):
    graph, pods = NodeGraph(), {}
    for number, node, secret in steps:
        old = pods.get(number)
        if old is not None:
            graph.pod_changed(old, None)
            del pods[number]
            continue
        new = {
            "metadata": {"name": f"p{number}", "namespace": "ns"},
            "spec": {"nodeName": node, "imagePullSecrets": [{"name": secret}]},
        }
        graph.pod_changed(None, new)
        pods[number] = new
    for node in ("n1", "n2"):
        for secret in ("s", "t"):
            named = any(
                each["spec"]["nodeName"] == node and each["spec"]["imagePullSecrets"] == [{"name": secret}]
                for each in pods.values()
            )
            assert graph.related(node, "secrets", "ns", secret) is named
