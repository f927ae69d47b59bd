"""The console log of a VM."""

from __future__ import annotations

from pathlib import Path

from podfit.vm.reach.consoles import Console


async def test_the_log_exists_before_the_guest_prints_its_first_line(tmp_path: Path) -> None:
    target = tmp_path / "logs/vm/0.log"
    console = Console(tmp_path / "console/raw.log", target)
    console.start()
    assert target.read_bytes() == b""
    await console.close()


async def test_a_line_of_the_runtime_itself_is_in_the_log(tmp_path: Path) -> None:
    target = tmp_path / "logs/vm/0.log"
    console = Console(tmp_path / "console/raw.log", target)
    console.start()
    console.say("podfit: a volume cannot be mounted")
    await console.close()
    assert target.read_text().endswith(" stdout F podfit: a volume cannot be mounted\n")
