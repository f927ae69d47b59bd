"""Parts of the cluster's pod range: never assigned twice, never outside the range, until none is left."""

from __future__ import annotations

from ipaddress import ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podfit.controllers.nodes.blocks import BadRange, Blocks, PodRanges, blocks_of

RANGE = ip_network("10.0.0.0/20")
parts = st.builds(
    lambda at, mask: str(ip_network((int(RANGE.network_address) + at, mask), strict=False)),
    st.integers(-(1 << 12), (1 << 13)),
    st.integers(18, 32),
)


@given(st.lists(parts, max_size=8))
def test_blocks_overlap_nothing_in_use_and_all_that_is_free_is_given_out(used: list[str]) -> None:
    blocks = Blocks(RANGE, 24)
    for text in used:
        blocks.occupy(text)
    given = []
    while (block := blocks.take()) is not None:
        given.append(ip_network(block))
    taken = [ip_network(text) for text in used]
    assert all(block.subnet_of(RANGE) and not any(block.overlaps(other) for other in taken) for block in given)
    free = [block for block in RANGE.subnets(new_prefix=24) if not any(block.overlaps(other) for other in taken)]
    assert sorted(given) == sorted(free)


@given(st.lists(parts, max_size=8), st.data())
def test_a_block_is_free_again_when_all_that_used_it_are_gone(used: list[str], data: st.DataObject) -> None:
    blocks = Blocks(RANGE, 24)
    for text in used:
        blocks.occupy(text)
    for text in data.draw(st.permutations(used)):
        blocks.release(text)
    assert len(list(iter(blocks.take, None))) == 16


def test_a_block_that_was_released_is_the_last_to_come_again() -> None:
    blocks = Blocks(ip_network("10.0.0.0/22"), 24)
    first = blocks.take()
    assert first == "10.0.0.0/24"
    blocks.release(first)
    assert [blocks.take() for _ in range(5)] == ["10.0.1.0/24", "10.0.2.0/24", "10.0.3.0/24", first, None]


def test_a_range_of_each_family_has_blocks_of_its_usual_size() -> None:
    four, six = blocks_of(PodRanges("10.0.0.0/16,fd00::/56"))
    assert (four.take(), six.take()) == ("10.0.0.0/24", "fd00::/64")
    four, six = blocks_of(PodRanges("10.0.0.0/16, fd00::/56", mask_ipv4=26, mask_ipv6=60))
    assert (four.take(), six.take()) == ("10.0.0.0/26", "fd00::/60")


def test_without_a_range_there_are_no_blocks() -> None:
    assert blocks_of(PodRanges()) == ()


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        (PodRanges("pods"), "does not appear to be"),
        (PodRanges("10.0.0.1/16"), "has host bits set"),
        (PodRanges("10.0.0.0/16,10.1.0.0/16"), "one IPv4 and one IPv6"),
        (PodRanges("10.0.0.0/16", mask=8), "does not fit"),
        (PodRanges("fd00::/32"), "more than 65536"),
        (PodRanges("10.0.0.0/16,fd00::/56", mask=24), "one range"),
        (PodRanges("10.0.0.0/16", mask=24, mask_ipv4=25), "no mask of a family"),
    ],
)
def test_settings_that_make_no_blocks_are_rejected(settings: PodRanges, why: str) -> None:
    with pytest.raises(BadRange, match=why):
        blocks_of(settings)
