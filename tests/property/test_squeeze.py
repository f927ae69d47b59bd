"""The squeeze probe's steps, for any container."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from podfit.agent.squeeze.decide import CALM, DEEPEST, LEAST, MI, Finished, Lower, MemoryReading, Probe, begin, step
from podfit.api.pods.squeeze import found_in, result

sizes = st.integers(MI, 1 << 40)


def probed(used: int, needs: int) -> tuple[int, list[int]]:
    """A container that stalls as soon as it has less than it needs; the working set that the probe finds, and
    the limits it sets.
    """
    brakes, stalled, at = [], 0, 0.0
    found = begin(MemoryReading(used, 0, at))
    while isinstance(found, Lower):
        brakes.append(found.probe.high)
        at += 10.0
        if found.probe.high < needs:
            stalled += 5_000_000
        found = step(found.probe, MemoryReading(min(used, found.probe.high), stalled, at))
    return found.enough, brakes


@given(sizes, st.floats(0, 1))
def test_it_ends_and_finds_no_less_than_the_container_needs_and_no_more_than_it_used(used: int, part: float) -> None:
    needs = int(used * part)
    enough, brakes = probed(used, needs)
    assert min(needs, used) <= max(enough, LEAST) and enough <= max(used, LEAST)
    assert len(brakes) < 100 and brakes == sorted(brakes, reverse=True)
    assert all(brake >= min(LEAST, used) for brake in brakes)


@given(sizes)
def test_a_container_that_never_stalls_is_not_squeezed_to_nothing(used: int) -> None:
    enough, brakes = probed(used, 0)
    assert enough >= min(used, max(LEAST, int(used * DEEPEST)))
    assert all(brake >= LEAST for brake in brakes)


@given(sizes, sizes, st.integers(0, 10**9), st.floats(0.1, 60))
def test_the_first_sign_of_pressure_ends_the_probe_with_the_last_value_without_pressure(
    first: int, high: int, before: int, seconds: float
) -> None:
    probe = Probe(first, high, high * 2, MemoryReading(high, before, 0.0))
    stalled = before + int(seconds * 1e6 * CALM * 2) + 1
    found = step(probe, MemoryReading(high, stalled, seconds))
    assert isinstance(found, Finished) and found.enough == high * 2


@given(sizes, sizes)
def test_memory_that_the_kernel_cannot_reclaim_ends_the_probe(high: int, more: int) -> None:
    used = high + high // 10 + more
    found = step(Probe(used, high, high, MemoryReading(used, 0, 0.0)), MemoryReading(used, 0, 10.0))
    assert isinstance(found, Finished) and found.enough >= used


@given(st.dictionaries(st.from_regex(r"[a-z][a-z0-9-]{0,10}", fullmatch=True), st.integers(0, 1 << 50), max_size=4))
def test_what_is_found_is_read_back(found: dict[str, int]) -> None:
    assert found_in(result(found, "t")) == found
