"""The arithmetic of a rolling update, as properties."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podfit.controllers.workloads.deployments.rolling import Size, bounds, new_size, old_sizes, proportional


def spec(replicas: int, surge: object, unavailable: object) -> dict[str, object]:
    rolling = {"maxSurge": surge, "maxUnavailable": unavailable}
    return {"replicas": replicas, "strategy": {"type": "RollingUpdate", "rollingUpdate": rolling}}


sizes = st.builds(lambda replicas, ready: (replicas, min(replicas, ready)), st.integers(0, 20), st.integers(0, 20))


def test_percentages_round_surge_up_and_unavailability_down() -> None:
    found = bounds(spec(10, "25%", "25%"))
    assert (found.surge, found.unavailable) == (3, 2)


def test_a_rollout_can_move_even_when_both_bounds_round_to_nothing() -> None:
    found = bounds(spec(3, 0, "1%"))
    assert (found.surge, found.unavailable) == (0, 1)


@given(st.integers(0, 30), st.integers(0, 10), st.integers(0, 30), st.integers(0, 30))
def test_the_new_set_never_takes_the_total_beyond_the_surge(wanted: int, surge: int, new: int, old: int) -> None:
    size = new_size(wanted, surge, new, new + old)
    if size > new:
        assert size + old <= wanted + surge
    assert size <= max(wanted, new)


@given(st.integers(0, 20), st.integers(0, 20), sizes, st.lists(sizes, max_size=4))
def test_old_sets_shrink_only_as_far_as_availability_allows(
    wanted: int, unavailable: int, new: tuple[int, int], old: list[tuple[int, int]]
) -> None:
    unavailable = min(unavailable, wanted)
    before = [Size(f"rs-{number}", *pair) for number, pair in enumerate(old)]
    after = old_sizes(wanted, unavailable, Size("new", *new), before)
    left = 0
    for item in before:
        size = after.get(item.name, item.replicas)
        assert 0 <= size <= item.replicas
        # Unhealthy pods are removed first, so the remaining healthy ones are those that fit the remaining size.
        left += min(item.available, size)
    start = new[1] + sum(item.available for item in before)
    assert new[1] + left >= min(start, wanted - unavailable)


@given(st.integers(0, 60), st.lists(st.integers(1, 20), min_size=1, max_size=5))
def test_rescaling_shares_out_exactly_the_new_total(total: int, old: list[int]) -> None:
    before = [Size(f"rs-{number}", size, size) for number, size in enumerate(old)]
    after = proportional(total, before)
    assert sum(after.get(item.name, item.replicas) for item in before) == total


@pytest.mark.parametrize(
    ("total", "before", "after"),
    [
        (18, [8, 5], [11, 7]),
        (15, [5, 5], [7, 8]),
        (5, [5, 5], [2, 3]),
        (0, [4, 7], [0, 0]),
        (13, [2, 3, 6], [2, 4, 7]),
    ],
)
def test_rescaling_shares_by_size_and_what_is_left_goes_to_the_largest(
    total: int, before: list[int], after: list[int]
) -> None:
    sets = [Size(f"rs-{number}", size, size) for number, size in enumerate(before)]
    found = proportional(total, sets)
    assert [found.get(replica_set.name, replica_set.replicas) for replica_set in sets] == after


def test_rescaling_compares_with_the_total_that_sets_were_made_for() -> None:
    # Sized for 12, but partly scaled down: 6 of 12 are 3 of 6, and the rest goes to the largest.
    sets = [Size("old", 6, 6), Size("new", 2, 0)]
    assert proportional(24, sets, {"old": 12, "new": 12}) == {"old": 20, "new": 4}


def test_a_rollout_with_instant_pods_ends_with_only_the_new_set() -> None:
    wanted, limits = 7, bounds(spec(7, "25%", "25%"))
    new, old = Size("new", 0, 0), Size("old", 7, 7)
    for _ in range(50):
        size = new_size(wanted, limits.surge, new.replicas, new.replicas + old.replicas)
        new = Size("new", size, size)
        shrunk = old_sizes(wanted, limits.unavailable, new, [old]).get("old", old.replicas)
        old = Size("old", shrunk, shrunk)
    assert (new.replicas, old.replicas) == (7, 0)
