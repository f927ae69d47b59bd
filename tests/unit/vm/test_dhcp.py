"""Responses to DHCP requests, as bytes."""

from __future__ import annotations

import struct

from podfit.vm.reach.dhcp import Lease, Names, answer

LEASE = Lease("10.1.2.3", 24, "10.1.2.1", "52:54:00:00:00:01", 1400)


def request(kind: int, mac: str = LEASE.mac) -> bytes:
    hardware = bytes.fromhex(mac.replace(":", "")).ljust(16, b"\0")
    head = struct.pack("!BBBBIHH16s", 1, 1, 6, 0, 0x1234, 0, 0x8000, b"") + hardware + b"\0" * 192
    return head + b"\x63\x82\x53\x63" + bytes((53, 1, kind, 255))


def test_a_discover_is_offered_the_pods_address_and_a_request_is_acknowledged() -> None:
    for kind, reply in ((1, 2), (3, 5)):
        found = answer(request(kind), LEASE, Names("guest", ("10.0.0.10",), ("default.svc", "svc")))
        assert found is not None
        assert found[0] == 2 and found[4:8] == b"\0\0\x12\x34" and found[16:20] == bytes((10, 1, 2, 3))
        options = found[240:]
        assert bytes((53, 1, reply)) in options
        assert bytes((1, 4, 255, 255, 255, 0)) in options and bytes((3, 4, 10, 1, 2, 1)) in options
        assert bytes((26, 2)) + struct.pack("!H", 1400) in options and b"\x0c\x05guest" in options
        assert bytes((6, 4, 10, 0, 0, 10)) in options and b"\x77\x12\x07default\x03svc\x00\x03svc\x00" in options


def test_requests_of_others_and_garbage_get_no_answer() -> None:
    assert answer(request(1, "52:54:00:00:00:02"), LEASE) is None
    assert answer(request(7), LEASE) is None
    for length in range(0, 300, 7):
        assert answer(b"\xff" * length, LEASE) is None


def test_search_domains_that_do_not_fit_into_an_option_are_left_out() -> None:
    many = tuple(f"{'x' * 60}.{number}" for number in range(6))
    found = answer(request(1), LEASE, Names(searches=many))
    assert found is not None
    assert b"\x013\x00" not in found and b"\x012\x00" in found
