"""The process that listens on a port, and a process's open files, read from /proc."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from podfit.kit.process.processes import listener, open_files
from podfit.kit.web.addresses import free_port


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0", "::1"])
def test_the_process_that_listens_is_found(host: str) -> None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.create_server((host, 0), family=family) as server:
        assert listener(server.getsockname()[1]) == os.getpid()


def test_a_connection_is_not_a_listener() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()[:2]) as client:
        assert listener(client.getsockname()[1]) is None


def test_open_files_are_seen_until_they_are_closed(tmp_path: Path) -> None:
    with (tmp_path / "x").open("w"):
        assert str(tmp_path / "x") in set(open_files(os.getpid()))
    assert str(tmp_path / "x") not in set(open_files(os.getpid()))


def test_a_process_that_is_gone_has_nothing_open() -> None:
    assert list(open_files(2**30)) == []


def test_a_requested_port_is_assigned_unless_it_is_in_use() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        wanted = server.getsockname()[1]
        assert free_port(wanted) != wanted
    assert free_port(wanted) == wanted
