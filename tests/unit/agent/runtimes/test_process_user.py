"""The user as which the process runtime starts a container, remembered across a restart of the agent."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podfit.agent.runtimes.process.records import ContainerRecord, _containers, _encoder
from podfit.agent.runtimes.process.setup.users import Identity, identify
from podfit.agent.runtimes.values import CannotRun, ContainerConfig, Limits, LinuxUser, Security


def config(tmp_path: Any, security: Security) -> ContainerConfig:
    return ContainerConfig(
        "c", 0, "busybox", ("true",), (), {}, "", (), Limits(), tmp_path / "0.log", security=security
    )


@pytest.fixture
def rootfs(tmp_path: Path) -> str:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc" / "passwd").write_text(
        "root:x:0:0::/root:/bin/sh\n# a comment\nbroken\napp:x:1000:1001::/home/app:/bin/sh\nodd:x:one:two::/:\n"
    )
    (tmp_path / "etc" / "group").write_text("root:x:0:\nwheel:x:10:root\nstaff:x:50:nobody,app\napp:x:1001:app\n")
    return str(tmp_path)


@pytest.mark.parametrize(
    ("security", "image_user", "user", "home"),
    [
        (Security(), "", LinuxUser(0, 0, (0, 10)), "/root"),
        (Security(), "app", LinuxUser(1000, 1001, (1001, 50)), "/home/app"),
        (Security(), "1000", LinuxUser(1000, 1001, (1001, 50)), "/home/app"),
        (Security(), "app:staff", LinuxUser(1000, 50, (50, 1001)), "/home/app"),
        (Security(), "app:7", LinuxUser(1000, 7, (7, 50, 1001)), "/home/app"),
        (Security(), "77:88", LinuxUser(77, 88, (88,)), "/"),
        (Security(), "77", LinuxUser(77, 0, (0,)), "/"),
        (Security(uid=77), "app:staff", LinuxUser(77, 0, (0,)), "/"),
        (Security(uid=1000), "", LinuxUser(1000, 1001, (1001, 50)), "/home/app"),
        (Security(uid=1, gid=2, groups=(3, 4)), "5:6", LinuxUser(1, 2, (2, 3, 4)), "/"),
        (Security(gid=2), "app", LinuxUser(1000, 2, (2, 50, 1001)), "/home/app"),
        (Security(groups=(9,), strict_groups=True), "app", LinuxUser(1000, 1001, (1001, 9)), "/home/app"),
    ],
)
def test_the_pod_goes_before_the_image_and_names_are_the_images(
    rootfs: str, security: Security, image_user: str, user: LinuxUser, home: str
) -> None:
    assert identify(security, image_user, rootfs) == Identity(user, home)


@pytest.mark.parametrize("image_user", ["nobody", "odd", "app:nogroup"])
def test_a_name_the_image_does_not_know_is_refused(rootfs: str, image_user: str) -> None:
    with pytest.raises(CannotRun, match="no matching entries in (passwd|group) file") as refused:
        identify(Security(), image_user, rootfs)
    assert refused.value.reason == "CreateContainerError"


def test_the_hosts_memberships_are_not_a_pods() -> None:
    assert identify(Security(uid=0), "", "") == Identity(LinuxUser(0, 0, (0,)), "/root")


def test_a_link_out_of_the_image_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc" / "passwd").symlink_to("/etc/passwd")
    with pytest.raises(CannotRun):
        identify(Security(), "daemon", str(tmp_path))


@given(st.text(alphabet="abc:0123456789\n#", max_size=60), st.text(alphabet="a0:", max_size=5))
def test_any_files_give_an_answer_or_a_refusal(text: str, image_user: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        etc = Path(folder) / "etc"
        etc.mkdir()
        for name in ("passwd", "group"):
            (etc / name).write_text(text)
        try:
            assert identify(Security(), image_user, folder).user.uid >= 0
        except CannotRun as refusal:
            assert "no matching entries" in str(refusal)


async def test_a_program_runs_with_the_identity_of_its_image(machine: Any) -> None:
    """On the host's files, as root: nothing of the keeper's own groups is left."""
    assert await machine.says("id", "-G") == "0"
    assert await machine.says("id", "-G", security=Security(uid=1000, groups=(9,))) == "0 9"


def test_a_record_keeps_the_user_and_one_from_before_has_none(tmp_path: Any) -> None:
    record = ContainerRecord("id", "u", config(tmp_path, Security()), "i", 1.0, "g", LinuxUser(1, 2, (3,)))
    written = json.loads(_encoder.encode(record))
    assert _containers.decode(json.dumps(written)).user == LinuxUser(1, 2, (3,))
    del written["user"]
    assert _containers.decode(json.dumps(written)).user is None
