"""Reports the phase of PersistentVolumes. Nothing binds them to claims."""

from podfit.controllers.volumes.phases import VolumePhaseController

__all__ = ["VolumePhaseController"]
