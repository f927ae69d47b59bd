"""The parts of `podfit explain`: a pod's placement, the state of a resize, an autoscaler's numbers. Each returns lines
to print."""
