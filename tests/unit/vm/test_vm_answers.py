"""The VM runtime's responses about a container."""

from __future__ import annotations

import pytest

pytest.importorskip("grpc")
pytest.importorskip("libvirt", reason="libvirt-python is not installed")

from podfit.cri import api_pb2 as cri
from podfit.vm.decide.layout import layout_of
from podfit.vm.decide.sizes import Limits, Size
from podfit.vm.records import Container, Image
from podfit.vm.server.answers import container_status, listed_container


def test_an_image_that_was_named_by_its_id_is_shown_by_the_name_that_the_pod_has() -> None:
    spec = cri.ImageSpec(image="sha256:5f0d", user_specified_image="podfit.dev/vm-guest:1")
    container = Container(
        id="0" * 64,
        sandbox_id="1" * 64,
        config=cri.ContainerConfig(image=spec),
        uuid="",
        group="/g",
        image=Image("sha256:5f0d"),
        layout=layout_of(Size(1, 256), {}),
        limits=Limits(),
        created_ns=1,
    )
    status = container_status(container, Limits(), "")
    assert (status.image.image, status.image_ref) == ("podfit.dev/vm-guest:1", "sha256:5f0d")
    assert listed_container(container).image.image == "podfit.dev/vm-guest:1"
