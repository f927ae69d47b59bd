"""The folder of libvirt's embedded driver, whose path must be short."""

from __future__ import annotations

from pathlib import Path

import pytest

from podfit.vm.machines import folder


def test_a_long_path_is_reached_by_a_link_that_is_removed_with_the_last_vm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder, "SHORT", tmp_path / "short")
    real = tmp_path / "a-name-longer-than-libvirt-allows"
    link = folder.prepare(real)
    assert link.is_symlink() and link.resolve() == real and folder.prepare(real) == link
    folder.forget(link)
    assert not link.is_symlink() and (real / "etc" / "qemu.conf").exists()
    folder.forget(real)
    assert real.exists()
