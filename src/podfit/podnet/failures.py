"""Errors of a pod's network. Messages are shown to users unchanged."""

from __future__ import annotations


class NetworkFailure(Exception):
    """The base class of this package's errors."""


class RulesRefused(NetworkFailure):
    """nft failed."""


class RangeExhausted(NetworkFailure):
    """Every address of the range is in use."""


class PortTaken(NetworkFailure):
    """A host port is in use by another process."""
