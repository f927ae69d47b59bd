"""Edge cases of upstream's arithmetic and parsing, each with the reason for the result."""

from __future__ import annotations

from typing import Any

import pytest

from podfit.api.objects import Object
from podfit.api.quantity import Quantity
from podfit.kit.clock import FakeClock
from podfit.kit.durations import go_duration
from podfit.vpa.admission.decide.validate import Allowed, validate
from podfit.vpa.model.fitting.bounds import cap_to_limits
from podfit.vpa.model.fitting.capping import capped_for_pod
from podfit.vpa.model.fitting.limitranges import merged
from podfit.vpa.model.fitting.limits import scale
from podfit.vpa.model.numbers import go_float
from podfit.vpa.model.objects.readable import UNREADABLE, readable
from podfit.vpa.recommender.decide.checkpoint import CheckpointError, load_histogram
from podfit.vpa.recommender.decide.evidence.oom import ooms_between, ooms_of_eviction
from podfit.vpa.recommender.decide.histograms import buckets
from podfit.vpa.recommender.decide.histograms.histogram import Histogram
from podfit.vpa.serve.http import Health
from podfit.vpa.updater.decide.config import UpdateConfig
from podfit.vpa.updater.decide.priority import candidates


def q(text: str) -> Quantity:
    return Quantity.parse(text)


def pod(*names: str, cpu: str = "100m", limit: str = "200m", **status: Any) -> Object:
    resources = {"requests": {"cpu": cpu, "memory": "100Mi"}, "limits": {"cpu": limit, "memory": "200Mi"}}
    containers = [{"name": name, "resources": resources} for name in names]
    return {
        "metadata": {"name": "p", "namespace": "n", "uid": "u"},
        "spec": {"containers": containers},
        "status": {"phase": "Running", **status},
    }


def vpa(*targets: tuple[str, str], mode: str = "InPlace", **spec: Any) -> Object:
    entries = [{"containerName": name, "target": {"cpu": cpu}} for name, cpu in targets]
    return {
        "metadata": {"name": "v", "namespace": "n"},
        "spec": {"updatePolicy": {"updateMode": mode}, **spec},
        "status": {"recommendation": {"containerRecommendations": entries}},
    }


def limit_range(type: str, name: str = "l", **bounds: Any) -> Object:
    return {"metadata": {"namespace": "n", "name": name}, "spec": {"limits": [{"type": type, **bounds}]}}


def test_a_recommendation_for_a_container_the_pod_lacks_does_not_count_towards_the_pods_limit() -> None:
    bounds = merged([limit_range("Pod", max={"cpu": "400m"})], "n")
    alone = capped_for_pod(vpa(("a", "150m")), pod("a"), bounds)
    beside = capped_for_pod(vpa(("gone", "5"), ("a", "150m")), pod("a"), bounds)
    assert alone is not None and alone == beside
    assert alone[0][0].target["cpu"] == q("150m")


def test_a_limit_of_zero_is_a_limit_for_requests_only() -> None:
    assert cap_to_limits({"cpu": q("100m")}, {"cpu": q("0")})[0]["cpu"] == q("0")


def test_of_several_limit_ranges_a_zero_takes_the_bound_away_and_the_later_of_equals_stays() -> None:
    found = merged(
        [limit_range("Container", "a", max={"cpu": "1"}), limit_range("Container", "b", max={"cpu": "0"})], "n"
    )
    assert found.container is not None and found.container.max == {"cpu": q("0")}
    same = [limit_range("Container", "a", max={"memory": "1Ki"}), limit_range("Container", "b", max={"memory": "1024"})]
    written = merged(same, "n").container
    assert written is not None and written.to_object()["max"] == {"memory": "1024"}


@pytest.mark.parametrize(("amount", "base", "result"), [("7", "-2", "-3"), ("-7", "2", "-4"), ("-7", "-2", "4")])
def test_divisions_leave_no_negative_rest(amount: str, base: str, result: str) -> None:
    assert scale("memory", q(amount), q(base), q("1"))[0] == q(result)


def test_states_count_as_soon_as_they_are_named() -> None:
    before = pod("a", containerStatuses=[{"name": "a", "state": {"running": {}}, "restartCount": 0}])
    ended = {"reason": "OOMKilled", "finishedAt": "2026-01-01T00:00:00Z"}
    status = {"name": "a", "state": {"running": {}}, "restartCount": 1, "lastState": {"terminated": ended}}
    [found] = ooms_between(before, pod("a", containerStatuses=[status]))
    assert found.memory == 100 << 20
    over = pod("a", containerStatuses=[{"name": "a", "state": {"terminated": {}}, "restartCount": 0}])
    again = pod("a", containerStatuses=[{"name": "a", "state": {"terminated": ended}, "restartCount": 0}])
    assert ooms_between(over, again) == []


@pytest.mark.parametrize("missing", ["offending_containers", "offending_containers_usage", "starved_resource"])
def test_an_eviction_that_does_not_say_everything_says_nothing(missing: str) -> None:
    notes = {"offending_containers": "a", "offending_containers_usage": "5", "starved_resource": "memory"}
    del notes[missing]
    meta = {"annotations": notes, "creationTimestamp": "2026-01-01T00:00:00Z"}
    target = {"kind": "Pod", "namespace": "n", "name": "p"}
    assert ooms_of_eviction({"reason": "Evicted", "involvedObject": target, "metadata": meta}) == []


def test_histograms_that_differ_only_outside_the_counted_buckets_are_equal() -> None:
    scheme = buckets.linear(10, 1, 0.1)
    one, other = Histogram(scheme), Histogram(scheme)
    for histogram in (one, other):
        histogram.add(5, 1.0)
    other.add(9, 0.05)
    assert one.equals(other)


def test_values_beyond_whole_numbers_fall_into_the_first_bucket() -> None:
    scheme = buckets.linear(10, 1, 0.1)
    assert [scheme.find(value) for value in (1e300, 1e9, -3.0, 2.5)] == [0, scheme.count - 1, 0, 2]


def test_a_negative_weight_is_reported_before_bad_buckets() -> None:
    saved = {"bucketWeights": {"999": 1}, "totalWeight": -1234567.5}
    with pytest.raises(CheckpointError, match=r"negative weight -1\.2345675e\+06"):
        load_histogram(Histogram(buckets.CPU), saved)


@pytest.mark.parametrize(
    ("number", "shown"),
    [(0.999, "0.999"), (-1234.567, "-1234.567"), (-2e6, "-2e+06"), (1e-5, "1e-05"), (123456.0, "123456"), (0.0, "0")],
)
def test_numbers_are_printed_as_upstream_prints_them(number: float, shown: str) -> None:
    assert go_float(number) == shown


def test_a_ratio_is_printed_with_all_its_digits() -> None:
    policy = {"containerPolicies": [{"containerName": "a", "oomBumpUpRatio": "-1234.567"}]}
    [error] = validate({"spec": {"resourcePolicy": policy}}, Allowed(per_vpa=True))
    assert "-1234.567" in str(error)


def test_what_could_not_be_done_is_compared_with_what_the_pod_would_get() -> None:
    """The policy's cap counts: 300m are recommended, 150m would be given, and 200m were too much before."""
    policy = {"containerPolicies": [{"containerName": "a", "maxAllowed": {"cpu": "150m"}}]}
    capped = vpa(("a", "300m"), resourcePolicy=policy)
    tried = {"u": {"containerRecommendations": [{"containerName": "a", "target": {"cpu": "200m"}}]}}
    config, now = UpdateConfig(gates={"InPlace": True}, pod_update_threshold=0.0), 2e9
    aged = pod("a", startTime="2020-01-01T00:00:00Z")
    assert candidates([aged], capped, now, config, infeasible=tried)
    assert not candidates([aged], vpa(("a", "300m")), now, config, infeasible=tried)
    assert candidates([aged], vpa(("a", "300m"), mode="InPlaceOrRecreate"), now, config, infeasible=tried)


def test_an_absurd_target_is_just_very_far_away() -> None:
    found = candidates([pod("a")], vpa(("a", "1e400"), mode="Recreate"), 0.0, UpdateConfig())
    assert not found or found[0].priority.difference > 1e9


def test_an_object_with_unreadable_fields_is_read_without_them() -> None:
    odd = vpa(("a", "1e1.5"), startupBoost={"cpu": {"type": "Quantity", "quantity": "1e.5"}}, targetRef={"kind": "K"})
    read = readable(odd)
    assert read["spec"] == {"targetRef": {"kind": "K"}, "updatePolicy": {"updateMode": "Off"}}
    assert read["status"] == {} and "spec.startupBoost.cpu.quantity" in read[UNREADABLE]
    fine = vpa(("a", "100m"))
    assert readable(fine) is fine


@pytest.mark.parametrize(
    ("seconds", "text"), [(5.25, "5.25s"), (300.0, "5m0s"), (3661.5, "1h1m1.5s"), (7200.0, "2h0m0s")]
)
def test_durations_print_as_go_prints_them(seconds: float, text: str) -> None:
    assert go_duration(seconds) == text


async def test_a_loop_without_progress_is_unhealthy() -> None:
    clock = FakeClock()
    health = Health(clock, 60.0)
    await clock.advance(300)
    assert health.silent_s == 0
    await clock.advance(1)
    assert health.silent_s == 301
    health.alive()
    assert health.silent_s == 0
