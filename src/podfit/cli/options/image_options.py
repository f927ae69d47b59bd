"""Options of `podfit up` and `podfit agent` about images: registries, parallel pulls, garbage collection."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from podfit.agent.decide.node.images import ImagePolicy

ImageFallback = Annotated[
    str,
    typer.Option(
        "--image-fallback",
        metavar="host",
        help="Pull nothing: containers whose image is missing run on the node's own files.",
    ),
]
InsecureRegistry = Annotated[
    list[str] | None,
    typer.Option(
        "--insecure-registry",
        metavar="HOST[:PORT]",
        help="A registry to access by HTTP, or by HTTPS with any certificate, as on loopback; may be repeated.",
    ),
]
SerializePulls = Annotated[bool, typer.Option("--serialize-image-pulls", help="Pull one image at a time.")]
MaxPulls = Annotated[
    int,
    typer.Option(
        "--max-parallel-image-pulls", min=0, help="How many images are pulled at a time; 0: four from each registry."
    ),
]
ImageGcHigh = Annotated[
    int,
    typer.Option(
        "--image-gc-high-threshold",
        min=0,
        max=100,
        help="The disk usage in percent above which unused images are deleted.",
    ),
]
ImageGcLow = Annotated[
    int,
    typer.Option(
        "--image-gc-low-threshold", min=0, max=100, help="The disk usage in percent at which deleting images stops."
    ),
]


def fallback(text: str) -> str:
    from podfit.compose import BadSetting

    if text not in ("", "host"):
        raise BadSetting(f"--image-fallback {text!r}: must be host")
    return text


def image_policy(high: int, low: int) -> ImagePolicy:
    from podfit.agent.decide.node.images import ImagePolicy
    from podfit.compose import BadSetting

    if low > high:
        raise BadSetting(f"--image-gc-low-threshold {low}: must not be higher than --image-gc-high-threshold {high}")
    return ImagePolicy(high, low)


def most_pulls(serialize: bool, most: int) -> int:
    """The limit of parallel pulls for the node as a whole; 0 for no limit."""
    from podfit.compose import BadSetting

    if serialize and most > 1:
        raise BadSetting(f"--max-parallel-image-pulls {most}: more than one at a time, and --serialize-image-pulls")
    return 1 if serialize else most
