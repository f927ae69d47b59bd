"""System errors are reported in the system's own words."""

from __future__ import annotations

import errno
import os
import socket
from pathlib import Path

import pytest

from podfit.kit.process.oserrors import system_words


def test_a_file_is_named_with_what_is_wrong_with_it(tmp_path: Path) -> None:
    with pytest.raises(OSError) as raised:
        (tmp_path / "none").read_text()
    assert system_words(raised.value) == f"{tmp_path}/none: No such file or directory"


def test_words_of_a_library_give_way_to_those_of_the_system() -> None:
    assert system_words(OSError(errno.ECONNREFUSED, "Connect call failed ('::1', 1)")) == os.strerror(
        errno.ECONNREFUSED
    )


def test_errors_of_the_resolver_keep_their_words() -> None:
    assert system_words(socket.gaierror(socket.EAI_NONAME, "Name or service not known")) == "Name or service not known"


def test_other_errors_read_as_they_are() -> None:
    assert system_words(ValueError("no such mode")) == "no such mode"
