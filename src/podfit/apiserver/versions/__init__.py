"""Converts custom resources, which are stored in one version, to all served versions."""

from podfit.apiserver.versions.plans import Versions

__all__ = ["Versions"]
