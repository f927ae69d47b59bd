"""Custom resources in several versions: stored in one, served in all."""

from podfit.apiserver.versions.plans import Versions

__all__ = ["Versions"]
