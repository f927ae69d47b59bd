"""When a vCPU may be plugged into an emulated machine."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from podfit.vm.decide.translation import cache_mib, has_room, regions

MIB = 1 << 20


def info(used: int, whole: int) -> str:
    return f"Translation buffer state:\ngen code size       {used}/{whole}\nTB count            17\n"


def test_a_cache_that_may_be_full_takes_no_vcpu() -> None:
    assert (cache_mib(4), regions(48, 4)) == (48, 24)
    for used, most in ((20, 3), (41, 3), (43, 2), (45, 1), (47, 0)):
        for added in range(1, 4):
            assert has_room(info(used * MIB, 48 * MIB), 1, added, 4) is (added <= most), (used, added)


def test_without_a_translation_cache_there_is_room() -> None:
    assert has_room("", 1, 3, 4)


@given(st.integers(2, 255), st.data())
def test_every_vcpu_has_a_region_and_a_fresh_guest_can_have_them_all(most: int, data: st.DataObject) -> None:
    present = data.draw(st.integers(1, most - 1))
    count = regions(cache_mib(most), most)
    assert count >= 2 * most
    whole = cache_mib(most) * MIB
    assert has_room(info(0, whole), present, most - present, most)
    # Each vCPU has a region that is not full.
    taken = data.draw(st.integers(count - present, count - 1))
    assert not has_room(info(taken * whole // count, whole), present, 1, most), (
        "each vCPU has a region that is not full"
    )
