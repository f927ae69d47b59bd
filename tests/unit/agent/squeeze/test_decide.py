"""The steps of a squeeze probe."""

from __future__ import annotations

from podfit.agent.squeeze.decide import CALM, DEEPEST, LEAST, MI, Finished, Lower, MemoryReading, Probe, begin, step

FIRST = 1000 * MI


def probe(high: int, at: float = 0.0, calm: int = FIRST) -> Probe:
    return Probe(FIRST, high, calm, MemoryReading(FIRST, 0, at))


def test_a_container_that_uses_little_is_not_squeezed() -> None:
    assert isinstance(begin(MemoryReading(LEAST, 0, 0.0)), Finished)
    assert isinstance(begin(MemoryReading(LEAST + 2 * MI, 0, 0.0)), Lower)


def test_a_calm_container_is_squeezed_further_and_what_was_calm_is_kept() -> None:
    found = step(probe(900 * MI), MemoryReading(900 * MI, 0, 5.0))
    assert isinstance(found, Lower)
    assert found.probe.high < 900 * MI and found.probe.calm == 900 * MI


def test_waiting_for_memory_ends_the_probe_with_what_was_calm_before() -> None:
    stalled = int(5.0 * 1e6 * CALM) + 1
    assert step(probe(900 * MI, calm=950 * MI), MemoryReading(900 * MI, stalled, 5.0)) == Finished(
        950 * MI, "it stalled on memory"
    )


def test_memory_that_the_kernel_cannot_reclaim_is_what_the_container_needs() -> None:
    found = step(probe(800 * MI, calm=850 * MI), MemoryReading(900 * MI, 0, 5.0))
    assert isinstance(found, Finished) and found.enough == 900 * MI


def test_no_container_is_squeezed_below_the_deepest_share() -> None:
    high = 900 * MI
    for _ in range(100):
        found = step(probe(high), MemoryReading(0, 0, 5.0))
        if isinstance(found, Finished):
            break
        high = found.probe.high
    assert isinstance(found, Finished) and found.enough == int(FIRST * DEEPEST)
