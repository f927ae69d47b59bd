"""A container runs with its image's program, environment, user, folder and signal; images are kept and removed
on the node.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.support.containers.images import Built, busybox, docker_archive, oci_archive

from podfit.agent.runtimes.process.setup.images import PAUSE, Image
from podfit.agent.runtimes.process.setup.launchspec import argv, capabilities
from podfit.agent.runtimes.signals import stop_signal
from podfit.agent.runtimes.values import CannotRun, ContainerConfig, Limits, RuntimeFailure, Security
from podfit.images.archives import load
from podfit.images.store import ImageStore


def put(machine: Any, name: str, image: Built) -> str:
    """Loads it into the node's store, as the command line does."""
    file = machine.folder / "image.tar"
    load(ImageStore(machine.folder / "data" / "images", durable=False), oci_archive(file, {name: image}))
    return name


def container(*command: str, args: tuple[str, ...] = (), image: str = "app") -> ContainerConfig:
    return ContainerConfig("c1", 0, image, command, args, {}, "", (), Limits(), Path("/none"))


def test_command_and_arguments_follow_kubernetes_rules() -> None:
    image = Image("i", "/root", entrypoint=("/entry",), command=("default",))
    assert argv(container(), image) == ("/entry", "default")
    assert argv(container(args=("mine",)), image) == ("/entry", "mine")
    assert argv(container("other", args=("mine",)), image) == ("other", "mine")
    assert argv(container("other"), image) == ("other",)


def test_an_image_that_names_no_program_cannot_run_without_one() -> None:
    with pytest.raises(CannotRun, match="no command specified"):
        argv(container(), Image("i", "/root"))
    assert argv(container(args=("x",)), Image("i", "/root")) == ("x",)


def test_the_host_image_runs_the_given_command_and_waits_otherwise() -> None:
    host = Image("host")
    assert argv(container(image="host"), host) == PAUSE
    assert argv(container(image="host", args=("no-such-program",)), host) == ("no-such-program",)
    assert argv(container(image="nginx", args=("no-such-program",)), host) == PAUSE
    assert argv(container(image="nginx", args=("sleep", "1")), host) == ("sleep", "1")


def test_capabilities_are_added_and_dropped_by_name() -> None:
    assert "NET_RAW" in capabilities(Security()) and "SYS_ADMIN" not in capabilities(Security())
    assert "NET_RAW" not in capabilities(Security(drop_capabilities=("CAP_NET_RAW",)))
    assert capabilities(Security(drop_capabilities=("all",), add_capabilities=("sys_time",))) == {"SYS_TIME"}
    assert "SYS_ADMIN" in capabilities(Security(add_capabilities=("ALL",)))


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("", signal.SIGTERM),
        ("SIGQUIT", signal.SIGQUIT),
        ("quit", signal.SIGQUIT),
        ("3", signal.SIGQUIT),
        ("SIGRTMIN+3", signal.SIGRTMIN + 3),
        ("SIGNONE", signal.SIGTERM),
        ("999", signal.SIGTERM),
    ],
)
def test_a_stop_signal_is_read_as_images_write_it(text: str, number: int) -> None:
    assert stop_signal(text) == number


async def test_a_container_is_what_its_image_says(machine: Any) -> None:
    script = "cat /only-here; echo; pwd; id -u; echo $COLOUR; ls -d /usr /home 2>/dev/null; true"
    settings: Mapping[str, Any] = {
        "Entrypoint": ["/bin/sh", "-c"],
        "Cmd": [script],
        "Env": ["COLOUR=red", "PATH=/bin"],
        "WorkingDir": "/tmp",
        "User": "app",
    }
    name = put(machine, "tiny:1", busybox(settings, **{"only-here": b"image"}))
    assert await machine.says(image=name) == "image\n/tmp\n1234\nred"


async def test_an_image_stops_by_its_own_signal(machine: Any) -> None:
    script = "trap 'echo quit; exit 0' QUIT; trap '' TERM; echo up; while :; do sleep 0.05; done"
    name = put(machine, "tiny:1", busybox({"Cmd": ["sh", "-c", script], "StopSignal": "SIGQUIT"}))
    uid = await machine.pod()
    cid = await machine.start(uid, image=name)
    async with asyncio.timeout(20):
        while "up" not in machine.text(uid):
            await asyncio.sleep(0.01)
    await machine.runtime.stop_container(cid, 20)
    state = await machine.runtime.container(cid)
    assert (state.exit_code, machine.text(uid)) == (0, "up\nquit")


async def test_status_reports_the_digest_of_a_registry_or_of_the_image_itself(machine: Any) -> None:
    image, uid = busybox(), await machine.pod()
    cid = await machine.start(uid, image=put(machine, "tiny:1", image))
    assert (await machine.runtime.container(cid)).image_id == f"docker.io/library/tiny@{image.digest}"
    loaded = busybox({"Labels": {"other": "1"}})
    file = docker_archive(machine.folder / "d.tar", "docked:1", loaded)
    load(ImageStore(machine.folder / "data" / "images", durable=False), file)
    cid = await machine.start(uid, name="c2", image="docked:1")
    assert (await machine.runtime.container(cid)).image_id == loaded.id


async def test_an_image_in_use_is_kept_across_a_restart(machine: Any) -> None:
    name, uid = put(machine, "tiny:1", busybox()), await machine.pod()
    await machine.start(uid, image=name)
    (found,) = await machine.runtime.images()
    for _ in range(2):
        with pytest.raises(RuntimeFailure, match="in use"):
            await machine.runtime.remove_image(found.id)
        await machine.runtime.close()
        machine.runtime = machine.make()
        await machine.runtime.open()
    await machine.runtime.remove_pod(uid)
    await machine.runtime.remove_image(found.id)
    assert await machine.runtime.images() == []


async def test_a_container_that_cannot_be_made_keeps_no_image(machine: Any) -> None:
    name, uid = put(machine, "tiny:1", busybox({"User": "nobody-here"})), await machine.pod()
    with pytest.raises(CannotRun):
        await machine.start(uid, image=name)
    (found,) = await machine.runtime.images()
    await machine.runtime.remove_image(found.id)
    assert await machine.runtime.images() == []


async def test_a_container_runs_the_very_image_that_was_found_for_it(machine: Any) -> None:
    """The tag may move between the two."""
    first = busybox({"Cmd": ["echo", "first"]})
    name = put(machine, "tiny:1", first)
    put(machine, name, busybox({"Cmd": ["echo", "second"]}))
    assert await machine.says(image=name, image_id=first.id) == "first"
