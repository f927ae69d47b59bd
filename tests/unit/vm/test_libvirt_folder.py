"""The folder of libvirt's embedded driver."""

from __future__ import annotations

import signal
import subprocess
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


def _state(folder: Path, name: str, text: str) -> Path:
    path = folder / "run" / "qemu" / f"{name}.xml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_a_vm_whose_qemu_never_started_does_not_run_after_a_crash(tmp_path: Path) -> None:
    whole = _state(tmp_path, "whole", "<domstatus state='running' pid='42'><monitor path='/m'/></domstatus>")
    _state(tmp_path, "half", "<!-- generated -->\n<domstatus state='paused' pid='0'><monitor path='/m'/></domstatus>")
    torn = _state(tmp_path, "torn", "<domstatus state=")
    folder.forget_interrupted(tmp_path)
    assert set(whole.parent.iterdir()) == {whole, torn}


def test_a_qemu_that_was_being_stopped_at_a_crash_is_killed(tmp_path: Path) -> None:
    with (
        subprocess.Popen(["bash", "-c", "read", "-name", "guest=stopping,x"], stdin=subprocess.PIPE) as qemu,
        subprocess.Popen(["sleep", "60"]) as other,
    ):
        states = [
            _state(tmp_path, "stopping", f"<domstatus state='shutdown' pid='{qemu.pid}'/>"),
            _state(tmp_path, "reused", f"<domstatus state='shutdown' pid='{other.pid}'/>"),
        ]
        folder.forget_interrupted(tmp_path)
        assert qemu.wait(10) == -signal.SIGKILL
        assert other.poll() is None and not any(state.exists() for state in states)
        other.kill()
