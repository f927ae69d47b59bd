"""The picture in the README: small, complete without animation, and without data of the machine it was made on."""

from __future__ import annotations

import re
import socket
from pathlib import Path
from xml.etree import ElementTree

PICTURE = Path(__file__).resolve().parents[2] / "docs" / "demo.svg"
SVG = "{http://www.w3.org/2000/svg}"


def texts() -> list[str]:
    root = ElementTree.fromstring(PICTURE.read_text())
    return ["".join(item.itertext()) for item in root.iter(f"{SVG}text")]


def test_it_shows_no_path_of_a_machine() -> None:
    paths = re.compile(r"(?<![\w./^])/[a-z][\w.-]*/[\w.-]")
    assert paths.search("KUBECONFIG=/home/somebody/admin.kubeconfig") and not paths.search("sed -n '/^States/,/^$/p'")
    assert [line for line in texts() if paths.search(line)] == []


def test_it_names_no_host_and_loads_nothing() -> None:
    written = PICTURE.read_text()
    assert set(re.findall(r"https?://[^\"' <)]+", written)) == {"http://www.w3.org/2000/svg"}
    assert socket.gethostname() not in written


def test_it_is_small() -> None:
    assert PICTURE.stat().st_size < 200_000


def test_it_shows_a_resize_deferred_freed_grown_and_shrunk() -> None:
    shown = [line for line in texts() if line.startswith("#")]
    assert [line.split()[1].rstrip(":,") for line in shown[1:]] == ["Deferred", "Freed", "Grown", "Shrunk"]
    assert any("Pending, Deferred: needs 1500m cpu" in line for line in texts())


def test_without_animation_the_last_screen_is_shown() -> None:
    groups = ElementTree.fromstring(PICTURE.read_text()).findall(f"{SVG}g")
    shown = ["".join(group.itertext()) for group in groups if "last" in group.attrib["class"].split()]
    assert shown[0].startswith("# Shrunk") and "Running" in shown[-1]
