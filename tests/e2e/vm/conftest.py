from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def short_path() -> Iterator[Path]:
    """libvirt puts sockets deep below it, and the path of a socket has 107 characters at most."""
    with tempfile.TemporaryDirectory(prefix="podfit-") as folder:
        yield Path(folder)
