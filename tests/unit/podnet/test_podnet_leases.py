"""Addresses of pods: never assigned twice, kept across a crash, released, and refused with a message when none
is left.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from podfit.podnet.failures import NetworkFailure, RangeExhausted
from podfit.podnet.leases import Leases
from podfit.podnet.ranges import PREFIX, choose, gateway, parse, seed_of

SMALL = IPv4Network("10.1.2.0/29")
STEPS = st.lists(st.tuples(st.sampled_from(["take", "release", "crash"]), st.sampled_from("abcdefg")), max_size=40)


@given(STEPS)
@settings(max_examples=60, deadline=None)
def test_no_two_pods_ever_share_an_address(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, str]]
) -> None:
    folder = tmp_path_factory.mktemp("leases")
    leases, expected = Leases(folder, SMALL), dict[str, IPv4Address]()
    for step, owner in steps:
        if step == "crash":
            leases = Leases(folder, SMALL)
        elif step == "release":
            leases.release(owner)
            expected.pop(owner, None)
        elif owner in expected or len(expected) < SMALL.num_addresses - 3:
            address = leases.take(owner)
            assert expected.get(owner, address) == address
            expected[owner] = address
        else:
            with pytest.raises(RangeExhausted):
                leases.take(owner)
        assert leases.held() == expected
        assert len(set(expected.values())) == len(expected)
        assert all(address in SMALL for address in expected.values())
        assert not set(expected.values()) & {SMALL[0], gateway(SMALL), SMALL[-1]}


def test_an_address_just_released_is_the_last_to_be_used_again(tmp_path: Path) -> None:
    leases = Leases(tmp_path, SMALL)
    first = leases.take("a")
    leases.release("a")
    later = [Leases(tmp_path, SMALL).take(name) for name in "bcdef"]
    assert first not in later[:4] and later[4] == first


def test_two_owners_of_the_folder_do_not_give_out_the_same_address(tmp_path: Path) -> None:
    one, other = Leases(tmp_path, SMALL), Leases(tmp_path, SMALL)
    assert one.take("a") != other.take("b")


def test_a_draft_that_a_killed_process_left_is_not_a_lease(tmp_path: Path) -> None:
    (tmp_path / ".0123").write_text("a")
    assert Leases(tmp_path, SMALL).held() == {}
    assert list(tmp_path.iterdir()) == []


def test_an_exhausted_range_is_named_with_the_number_of_its_addresses(tmp_path: Path) -> None:
    leases = Leases(tmp_path, SMALL)
    for name in "abcde":
        leases.take(name)
    with pytest.raises(RangeExhausted, match=r"10\.1\.2\.0/29: all 5 are in use"):
        leases.take("f")


@given(st.integers(0, 2**32 - 1), st.lists(st.integers(0, 2**14 - 1), max_size=20), st.integers(10, 32))
def test_a_chosen_range_overlaps_nothing_that_is_routed(seed: int, taken: list[int], prefix: int) -> None:
    routed = [IPv4Network("0.0.0.0/0")]
    routed += [IPv4Network((0x0A400000 + (at << 8), max(prefix, 13)), strict=False) for at in taken]
    chosen = choose(seed, routed)
    assert chosen.prefixlen == PREFIX
    assert not any(chosen.overlaps(network) for network in routed[1:])
    assert choose(seed_of(chosen), routed) == chosen


def test_without_a_free_range_the_reason_says_so() -> None:
    with pytest.raises(NetworkFailure, match="no free range"):
        choose(0, [IPv4Network("10.0.0.0/8")])


@pytest.mark.parametrize("text", ["", "10.1.2", "fd00::/64", "10.1.2.0/33", "10.1.2.0/31"])
def test_a_range_that_cannot_hold_pods_is_refused(text: str) -> None:
    with pytest.raises(NetworkFailure):
        parse(text)
