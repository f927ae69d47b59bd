"""Protects objects in use from deletion: claims, volumes, attribute classes and ranges of Services keep a finalizer."""

from podfit.controllers.protection.attributes import AttributesClassProtectionController
from podfit.controllers.protection.claims import ClaimProtectionController
from podfit.controllers.protection.ranges import ServiceRangesController
from podfit.controllers.protection.volumes import VolumeProtectionController

__all__ = [
    "AttributesClassProtectionController",
    "ClaimProtectionController",
    "ServiceRangesController",
    "VolumeProtectionController",
]
