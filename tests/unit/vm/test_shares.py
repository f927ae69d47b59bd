"""Mounts of a container as folders that a VM shares with its node."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from podfit.cri import api_pb2 as cri

shares: Any = pytest.importorskip("podfit.vm.guest.shares", reason="no Python binding of libvirt (make libvirt)")


def test_a_folder_behind_a_symbolic_link_is_shared_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shares, "DAEMONS", ("/bin/sh",))
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    [share] = shares.shares_of([cri.Mount(host_path=str(tmp_path / "link"), container_path="/data")])
    assert share.source == (tmp_path / "real").resolve()
