"""Steps of the memory reflex, for any sizes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from podfit.agent.reflex.decide import WatchedContainer, calm, near, stuck
from podfit.api.pods.reflex import LEAK, NOT_RAISED, NearLimit, near_of, threshold
from podfit.vpa.updater.decide.reflex import MI, MOST_WITHOUT_BOUND, EarlierReflexes, Grow, Stay, grown

sizes = st.integers(MI, 1 << 40)
times = st.floats(0, 1e6)


@given(
    sizes,
    st.integers(0, 1 << 40),
    st.none() | sizes,
    st.builds(EarlierReflexes, st.integers(0, 9), times, sizes),
    times,
)
def test_a_step_grows_within_the_bound_and_keeps_the_limit_above_the_request(
    request: int, above: int, most: int | None, before: EarlierReflexes, now: float
) -> None:
    limit = request + above
    found = grown(request, limit, most, before, now)
    if isinstance(found, Stay):
        assert most is not None or before.first_request <= request
        return
    assert found.request > request and found.limit >= found.request and found.limit > limit
    assert most is None or found.request <= most
    if not above:
        assert found.limit == found.request, "the QoS class stays"


@given(sizes, sizes, st.lists(st.floats(0.01, 1000), min_size=1, max_size=200))
def test_a_leak_climbs_to_its_bound_and_no_further(request: int, most: int, pauses: list[float]) -> None:
    now, before, size = 0.0, EarlierReflexes(), request
    for pause in pauses:
        now += pause
        found = grown(size, size, most, before, now)
        if isinstance(found, Stay):
            assert size >= most
            break
        size = found.request
        before = EarlierReflexes(before.count + 1, now, before.first_request or request)
    assert size <= max(most, request)


@given(sizes)
def test_without_a_bound_there_is_one_all_the_same(request: int) -> None:
    size, before = request, EarlierReflexes()
    for step in range(100):
        found = grown(size, size, None, before, float(step))
        if isinstance(found, Stay):
            break
        assert isinstance(found, Grow)
        size, before = found.request, EarlierReflexes(step + 1, float(step), request)
    assert size <= MOST_WITHOUT_BOUND * request


@given(sizes, st.integers(0, 1 << 40), st.integers(0, 10))
def test_the_condition_is_read_back_and_a_leak_is_suspected_only_after_raises(
    limit: int, used: int, raises: int
) -> None:
    one = WatchedContainer("main", "id", limit, raises)
    for found in (near(one, used), stuck(one, used)):
        pod = found.change("t")
        pod["status"]["conditions"].insert(0, {"type": "Ready", "status": "True"})
        assert near_of(pod) == NearLimit("main", used, limit)
    assert (stuck(one, used).reason == LEAK) == (raises >= 2)
    assert stuck(WatchedContainer("main", "id", limit), used).reason == NOT_RAISED
    assert near_of(calm(one).change("t")) is None
    assert threshold(limit) < limit


@given(sizes, sizes, st.booleans())
def test_raises_count_for_one_container_and_only_when_it_was_near(first: int, second: int, was_near: bool) -> None:
    one = WatchedContainer("main", "a", first, 3)
    assert one.next("b", second, was_near).raises == 0, "a new container begins anew"
    assert one.next("a", second, was_near).raises == 3 + (second > first and was_near)
