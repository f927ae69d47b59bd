"""A guest releases memory without losing its own processes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from podfit.vm.decide.shrinking import LEAST_RESERVE, STEP, Guest, can_give, may_detach, missing, next_step, reserve


def test_a_reserve_stays_available() -> None:
    assert reserve(100) == LEAST_RESERVE
    assert reserve(10_000) == 600
    assert can_give(Guest(1024, 100), 512) == 100 - reserve(512)
    assert can_give(Guest(1024, 10), 512) == 0


def test_a_device_is_detached_only_if_its_content_has_room_elsewhere() -> None:
    guest = Guest(1024, 200)
    assert may_detach(128, guest, 512) and not may_detach(256, guest, 512)


def test_memory_still_in_use_is_reported_with_numbers() -> None:
    assert missing(1024, 512) == "512 MiB of 1024 MiB are still in use by the guest; retrying"


@given(present=st.integers(1, 1 << 20), target=st.integers(1, 1 << 20), available=st.integers(0, 1 << 20))
def test_a_step_never_takes_more_than_the_guest_can_give_and_never_passes_the_target(
    present: int, target: int, available: int
) -> None:
    guest = Guest(max(present, available), available)
    after = next_step(present, target, guest)
    if present <= target:
        assert after == target
    else:
        assert target <= after <= present
        assert present - after <= min(STEP, can_give(guest, target))
