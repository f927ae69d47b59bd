"""What can go wrong with a pod's network. Messages are shown to users as they are."""

from __future__ import annotations


class NetworkFailure(Exception):
    """Root of what this package raises."""


class RulesRefused(NetworkFailure):
    """nft did not do what it was asked."""


class RangeExhausted(NetworkFailure):
    """Every address of the range is in use."""


class PortTaken(NetworkFailure):
    """A host port is in use by something else."""
