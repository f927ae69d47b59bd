"""Sizes of a report, for any usage and any current sizes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from podfit.vpa.history.kills import KillCounters
from podfit.vpa.recommender.decide.histograms.estimate import Estimate
from podfit.vpa.report.decide.sizing import MI, ContainerSizes, SizeBounds, rounded, sized
from podfit.vpa.report.usage.evidence import Evidence
from podfit.vpa.runtimes.heaps import Heap

amounts = st.integers(1, 1 << 44)
cpu = st.integers(1, 10**6)
maybe = st.none() | st.integers(1, 1 << 44)


@st.composite
def sizes(draw: st.DrawFn) -> ContainerSizes:
    requests = {name: value for name in ("cpu", "memory") if (value := draw(maybe)) is not None}
    limits = {
        name: draw(st.integers(requests.get(name, 1), 1 << 45)) for name in ("cpu", "memory") if draw(st.booleans())
    }
    return ContainerSizes(requests, limits)


@st.composite
def evidences(draw: st.DrawFn) -> Evidence:
    target = {"cpu": draw(cpu), "memory": draw(amounts)}
    used = {"cpu": draw(cpu), "memory": draw(amounts)}
    throttled = draw(st.none() | st.floats(0, 1))
    return Evidence("prometheus", 9, 0.0, 9.0, 1, Estimate(target, target, target), used, {}, 0, throttled)


heaps = st.none() | st.builds(Heap, st.just("Go"), st.just("GOMEMLIMIT=1"), st.integers(1, 1 << 40))
bounds = st.builds(
    SizeBounds,
    st.dictionaries(st.sampled_from(["cpu", "memory"]), st.integers(1, 1 << 30)),
    st.just({}),
    st.booleans(),
)


@given(sizes(), evidences(), heaps, bounds)
def test_limits_are_never_below_requests_and_none_is_made_up(
    now: ContainerSizes, evidence: Evidence, heap: Heap | None, given_bounds: SizeBounds
) -> None:
    found = sized(now, evidence, heap, given_bounds).sizes
    assert set(found.limits) <= set(now.limits)
    assert all(found.limits[name] >= found.requests[name] for name in found.limits)


@given(sizes(), evidences(), heaps)
def test_memory_covers_the_heap_and_the_limit_covers_the_peak(
    now: ContainerSizes, evidence: Evidence, heap: Heap | None
) -> None:
    found = sized(now, evidence, heap, SizeBounds()).sizes
    if heap is not None:
        assert found.requests["memory"] >= heap.floor
    if "memory" in found.limits:
        assert found.limits["memory"] >= evidence.used["memory"]


@given(sizes(), evidences(), heaps)
def test_a_request_that_equals_its_limit_stays_equal(
    now: ContainerSizes, evidence: Evidence, heap: Heap | None
) -> None:
    found = sized(now, evidence, heap, SizeBounds()).sizes
    for name in found.limits:
        if now.request(name) == now.limits[name]:
            assert found.requests[name] == found.limits[name]


@given(evidences(), st.integers(1, 1 << 40))
def test_no_request_is_above_the_most(evidence: Evidence, most: int) -> None:
    found = sized(ContainerSizes(), evidence, None, SizeBounds({}, {"cpu": most, "memory": most})).sizes
    assert found.requests["cpu"] <= most and found.requests["memory"] < most + MI


@given(st.sampled_from(["cpu", "memory"]), st.integers(0, 1 << 50))
def test_rounding_never_goes_down(resource: str, amount: int) -> None:
    assert rounded(resource, amount) >= amount


@given(st.lists(st.integers(0, 5), max_size=20))
def test_kills_are_the_rises_of_a_counter_with_resets(steps: list[int]) -> None:
    value, points, rises = 0, [(0.0, 0.0)], 0
    for at, step in enumerate(steps, 1):
        value = 0 if step == 0 and at % 3 == 0 else value + step
        points.append((float(at), float(value)))
        rises += step if value else 0
    counters = KillCounters[str](begins=0.0)
    found = counters.rises("a", points)
    assert len(found) == rises and counters.last["a"] == points[-1][1] and found == sorted(found)
