"""Garbage collection: of objects by ownerReferences, and of pods that will never finish."""

from podfit.controllers.garbage.owners import GarbageCollector
from podfit.controllers.garbage.pods import PodGarbageController

__all__ = ["GarbageCollector", "PodGarbageController"]
