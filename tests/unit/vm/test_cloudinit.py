"""The disk that cloud-init reads: its label, its files, and how user data is combined."""

from __future__ import annotations

import base64
import email
import json

import pytest

from podfit.api.pods.machines import SSH_KEYS, USER_DATA, USER_DATA_BASE64
from podfit.vm.decide.refusals import Invalid
from podfit.vm.guest.cloudinit import seed
from podfit.vm.guest.iso import SECTOR, iso_image


def files(image: bytes) -> dict[str, bytes]:
    """The entries in the Joliet tree of an image."""
    volume = image[17 * SECTOR : 18 * SECTOR]
    assert volume[:7] == b"\x02CD001\x01"
    root = int.from_bytes(volume[158:162], "little")
    folder, found = image[root * SECTOR : (root + 1) * SECTOR], {}
    while folder[:1] > b"\0":
        entry, folder = folder[: folder[0]], folder[folder[0] :]
        at, size = (int.from_bytes(entry[place : place + 4], "little") for place in (2, 10))
        name = entry[33 : 33 + entry[32]]
        if len(name) > 1:
            found[name.decode("utf-16-be")] = image[at * SECTOR : at * SECTOR + size]
    return found


def test_every_file_of_an_image_is_found_under_its_name() -> None:
    given = {"meta-data": b"x" * 5000, "user-data": b"", "a long name with blanks.txt": b"y"}
    image = iso_image("cidata", given)
    assert files(image) == given
    assert len(image) % SECTOR == 0
    assert image[16 * SECTOR + 40 : 16 * SECTOR + 46] == b"CIDATA"


def test_a_pod_without_data_and_keys_has_no_such_disk() -> None:
    assert seed({}, "uid", "name") is None


def test_keys_and_names_are_meta_data() -> None:
    image = seed({SSH_KEYS: "ssh-rsa A\n\n ssh-rsa B\n"}, "uid", "name")
    assert image is not None
    assert json.loads(files(image)["meta-data"]) == {
        "instance-id": "uid",
        "local-hostname": "name",
        "public-keys": ["ssh-rsa A", "ssh-rsa B"],
    }
    assert files(image)["user-data"].startswith(b"#cloud-config")


@pytest.mark.parametrize(
    ("text", "written"),
    [("#cloud-config\nruncmd: []\n", b"#cloud-config\nruncmd: []\n"), ("echo hi", b"#!/bin/sh\necho hi")],
)
def test_user_data_that_does_not_say_what_it_is_is_a_script(text: str, written: bytes) -> None:
    image = seed({USER_DATA: text}, "uid", "name")
    assert image is not None and files(image)["user-data"] == written


def test_data_and_a_script_are_parts_of_one_message() -> None:
    data = base64.b64encode(b"#cloud-config\npackages: [git]\n").decode()
    image = seed({USER_DATA_BASE64: data, USER_DATA: "#!/bin/sh\necho hi\n"}, "uid", "name")
    assert image is not None
    message = email.message_from_bytes(files(image)["user-data"])
    parts = [part.get_payload(decode=True) for part in message.get_payload()]  # type: ignore[union-attr]
    assert parts == [b"#cloud-config\npackages: [git]\n", b"#!/bin/sh\necho hi\n"]


def test_data_that_is_not_base64_is_refused() -> None:
    with pytest.raises(Invalid, match="user-data-base64"):
        seed({USER_DATA_BASE64: "%%%"}, "uid", "name")
