"""Which images a node deletes, and which ones it reports."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from podfit.agent.decide.node.images import ImageDisk, ImagePolicy, ImageUse, bytes_to_free, deletable, in_use, reported
from podfit.agent.runtimes.values import ContainerState, ImageState

GIB = 1 << 30


def test_nothing_is_deleted_below_the_high_threshold_and_down_to_the_low_one_above() -> None:
    policy = ImagePolicy(85, 80)
    assert bytes_to_free(ImageDisk(100 * GIB, 16 * GIB), policy) == 0
    assert bytes_to_free(ImageDisk(100 * GIB, 15 * GIB), policy) == 5 * GIB
    assert bytes_to_free(ImageDisk(0, 0), policy) == 0


disks = st.integers(1 << 20, 1 << 45).flatmap(lambda size: st.builds(ImageDisk, st.just(size), st.integers(0, size)))
policies = st.tuples(st.integers(0, 100), st.integers(0, 100)).map(lambda pair: ImagePolicy(max(pair), min(pair)))


@given(disks, policies)
def test_freeing_what_is_requested_brings_the_disk_to_the_low_threshold(disk: ImageDisk, policy: ImagePolicy) -> None:
    wanted = bytes_to_free(disk, policy)
    if wanted > 0:
        after = ImageDisk(disk.capacity_bytes, disk.available_bytes + wanted)
        assert disk.usage_percent >= policy.high_percent and after.usage_percent <= policy.low_percent + 1


def test_the_image_that_was_not_used_for_the_longest_time_goes_first_and_a_young_one_stays() -> None:
    images = [
        ImageUse("used-lately", 1, 0.0, 500.0),
        ImageUse("never-used", 1, 100.0, 0.0),
        ImageUse("young", 1, 950.0, 0.0),
        ImageUse("older-and-never-used", 1, 50.0, 0.0),
    ]
    found = [image.id for image in deletable(images, now=1000.0, min_age_s=120.0)]
    assert found == ["older-and-never-used", "never-used", "used-lately"]


def container(image: str, image_id: str) -> ContainerState:
    return ContainerState("id", "c", 0, "running", image, image_id, 0.0)


def test_a_container_uses_an_image_under_each_of_its_names() -> None:
    image = ImageState("sha256:1", ("docker.io/library/app:1",), ("docker.io/library/app@sha256:2",))
    assert in_use(image, [container("app:1", "sha256:1")])
    assert in_use(image, [container("app:1", "docker.io/library/app@sha256:2")])
    assert not in_use(image, [container("host", "host"), container("app:2", "sha256:3")])


def test_the_largest_images_are_reported_with_their_digests_first() -> None:
    many = [ImageState(f"sha256:{number}", (f"app:{number}",), (), number) for number in range(60)]
    shown = reported([*many, ImageState("sha256:x", ("a:1",), ("a@sha256:2",), 1000)])
    assert len(shown) == 50 and shown[0] == {"names": ["a@sha256:2", "a:1"], "sizeBytes": 1000}
    assert [entry["sizeBytes"] for entry in shown[1:4]] == [59, 58, 57]
