"""The addresses at which a listener is reachable."""

from __future__ import annotations

import ipaddress

import pytest

from podfit.kit.web.addresses import machine_address, reached_at


@pytest.mark.parametrize("host", ["", "0.0.0.0", "::"])
def test_a_listener_on_every_address_is_reached_at_the_machines(host: str) -> None:
    assert reached_at(host) == machine_address()
    assert not ipaddress.ip_address(reached_at(host)).is_unspecified


@pytest.mark.parametrize("host", ["127.0.0.1", "10.0.0.7", "::1", "server.example"])
def test_any_other_listener_is_reached_where_it_listens(host: str) -> None:
    assert reached_at(host) == host
