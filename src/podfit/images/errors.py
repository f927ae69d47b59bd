"""Errors of images. Their messages are shown to users, in Events and on the command line.

ImageError
├── PullFailed       the image could not be pulled from the registry
├── BrokenImage      an archive, manifest or layer that cannot be used
├── NoSuchImage      not in the store
└── ImageInUse       containers run on it
"""

from __future__ import annotations


class ImageError(Exception):
    """The base class of this package's errors."""


class PullFailed(ImageError):
    """The image could not be pulled; the message has the registry's reason."""


class BrokenImage(ImageError):
    """An archive, manifest or layer that is unusable."""


class NoSuchImage(ImageError):
    """The store has no such image."""


class ImageInUse(ImageError):
    """Containers use it."""
