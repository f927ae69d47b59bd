"""`podfit image load` selects the runtime that images are loaded into."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.containers.images import build, oci_archive
from typer.testing import CliRunner

from podfit.cli.main import app
from podfit.images.store import IMAGES, ImageStore
from podfit.kit.badsetting import BadSetting


@pytest.mark.parametrize(("files", "boots"), [({"disk/": b"", "disk/a.raw": b"x"}, True), ({"motd": b"x"}, False)])
def test_images_for_vms_are_in_the_store_that_the_vm_runtime_reads(
    tmp_path: Path, files: dict[str, bytes], boots: bool
) -> None:
    archive = oci_archive(tmp_path / "x.tar", {"team/guest:1": build([files])})
    words = ["image", "load", "--runtime", "vm", "--data-dir", str(tmp_path / "data"), str(archive)]
    ran = CliRunner().invoke(app, words)
    assert ran.exit_code == 0, ran.output
    assert ("No VM starts from it" in ran.output) is not boots
    assert ImageStore(tmp_path / "data" / IMAGES).find("team/guest:1") is not None


def test_images_of_a_runtime_that_keeps_its_own_are_not_loaded(tmp_path: Path) -> None:
    ran = CliRunner().invoke(app, ["image", "load", "--runtime", "cri", "--data-dir", str(tmp_path / "data"), "x.tar"])
    assert isinstance(ran.exception, BadSetting) and "keeps its own images" in str(ran.exception)
