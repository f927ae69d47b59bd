"""Requests that the VM runtime refuses, with its messages."""

from __future__ import annotations

from pathlib import Path

import grpc
import pytest
from tests.e2e.guest import vm_image
from tests.vms import Vms, guest_archive, needs_vms, process, serving

pytestmark = needs_vms


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    """An image that no VM starts from."""
    (tmp_path / "motd").write_text("hello\n")
    return vm_image.oci_archive(tmp_path / "plain.tar", "podfit.dev/plain:1", {"/etc/motd": tmp_path / "motd"})


async def test_an_image_without_disk_and_kernel_is_refused_with_the_reason(tmp_path: Path, plain: Path) -> None:
    async with serving(tmp_path, plain) as (_, vms):
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await vms.run("plain", image="podfit.dev/plain:1")
        assert refused.value.code() is grpc.StatusCode.FAILED_PRECONDITION
        assert "/boot/vmlinuz" in (refused.value.details() or "")
        with pytest.raises(grpc.aio.AioRpcError) as missing:
            await vms.run("missing", image="podfit.dev/nowhere:1")
        assert missing.value.code() is grpc.StatusCode.NOT_FOUND


async def test_a_corrupt_disk_is_refused_and_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "bad").write_bytes(b"QFI\xfb" + b"\xff" * 512)
    archive = vm_image.oci_archive(tmp_path / "bad.tar", "podfit.dev/bad:1", {"/disk/bad.qcow2": tmp_path / "bad"})
    async with serving(tmp_path, archive) as (runtime, vms):
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await vms.run("bad", image="podfit.dev/bad:1")
        assert "bad.qcow2" in (refused.value.details() or "")
        assert not runtime.records.containers and not list((tmp_path / "vms").glob("*"))


@pytest.mark.parametrize(
    ("annotations", "words"),
    [
        ({"max_memory": "8Gi"}, "can carry at most 4096 MiB"),
        ({"slots": "many"}, "podfit.dev/vm-slots"),
        ({"memory_": "magnetic"}, "dimm, virtio-mem"),
    ],
)
async def test_annotations_that_cannot_be_honoured_are_refused(
    tmp_path: Path, annotations: dict[str, str], words: str
) -> None:
    async with serving(tmp_path, guest_archive(tmp_path)) as (_, vms):
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await vms.run("odd", **annotations)
        assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT and words in (refused.value.details() or "")


async def test_a_second_runtime_on_the_same_folder_or_socket_does_not_start(tmp_path: Path) -> None:
    async with process(tmp_path / "one"):
        with pytest.raises(AssertionError):
            async with process(tmp_path / "one"):
                pass
        with pytest.raises(AssertionError):
            async with process(tmp_path / "two", "--listen", f"unix://{tmp_path}/one/vm.sock"):
                pass
        vms = Vms(tmp_path / "one/vm.sock")
        await vms.remove_all()
        await vms.close()
