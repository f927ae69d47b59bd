"""The process runtime remembers whom it starts a container as, also across a restart of the agent."""

from __future__ import annotations

import json
from typing import Any

import pytest

from podfit.agent.runtimes.base import ContainerConfig, Limits, LinuxUser, Security
from podfit.agent.runtimes.process.images import Image
from podfit.agent.runtimes.process.launchspec import user_of
from podfit.agent.runtimes.process.records import ContainerRecord, _containers, _encoder


def config(tmp_path: Any, security: Security) -> ContainerConfig:
    return ContainerConfig(
        "c", 0, "busybox", ("true",), (), {}, "", (), Limits(), tmp_path / "0.log", security=security
    )


@pytest.mark.parametrize(
    ("security", "image_user", "user"),
    [
        (Security(uid=1, gid=2, groups=(3, 4)), "5:6", LinuxUser(1, 2, (3, 4))),
        (Security(), "5:6", LinuxUser(5, 6)),
        (Security(uid=1), "5:6", LinuxUser(1, 6)),
        (Security(uid=0), "", LinuxUser(0, 0)),
        (Security(gid=2), "", None),
        (Security(), "nobody", None),
    ],
)
def test_the_pod_goes_before_the_image(tmp_path: Any, security: Security, image_user: str, user: Any) -> None:
    image = Image("sha256:1", user=image_user)
    assert user_of(config(tmp_path, security), image) == user


def test_a_record_keeps_the_user_and_one_from_before_has_none(tmp_path: Any) -> None:
    record = ContainerRecord("id", "u", config(tmp_path, Security()), "i", 1.0, "g", LinuxUser(1, 2, (3,)))
    written = json.loads(_encoder.encode(record))
    assert _containers.decode(json.dumps(written)).user == LinuxUser(1, 2, (3,))
    del written["user"]
    assert _containers.decode(json.dumps(written)).user is None
