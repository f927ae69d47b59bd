"""Writes Endpoints and EndpointSlices of Services, and slices that mirror Endpoints created by other clients."""

from podfit.controllers.endpoints.legacy import EndpointsController
from podfit.controllers.endpoints.mirroring import EndpointSliceMirroringController
from podfit.controllers.endpoints.slices import EndpointSliceController

__all__ = ["EndpointSliceController", "EndpointSliceMirroringController", "EndpointsController"]
