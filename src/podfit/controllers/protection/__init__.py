"""What is in use is not deleted: claims, volumes, attribute classes and ranges of Services keep a finalizer."""

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
