"""Ports that the user states are passed on unchanged, and rejected at once if they are unavailable."""

from __future__ import annotations

import socket

import pytest

from podfit.cli.options.ports import autoscaler_flags
from podfit.compose import BadSetting


def test_without_flags_every_component_picks_its_port() -> None:
    assert autoscaler_flags("", "", "", 0) == {}


def test_a_component_gets_the_address_that_was_named_for_it(unused_tcp_port: int) -> None:
    here = f"127.0.0.1:{unused_tcp_port}"
    assert autoscaler_flags("", here, "", 0) == {"updater": [f"--address={here}"]}
    assert autoscaler_flags("", "", here, 8443) == {"admission": [f"--address={here}", "--port=8443"]}


def test_a_port_that_is_taken_is_refused_with_its_flag() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        where = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(BadSetting, match=f"^--recommender-address {where}: Address already in use$"):
            autoscaler_flags(where, "", "", 0)


def test_up_can_reject_pods_while_the_webhook_does_not_answer() -> None:
    assert autoscaler_flags("", "", "", 0, True) == {"admission": ["--webhook-failure-policy-fail=true"]}
