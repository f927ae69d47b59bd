"""A cluster in virtual time, for `podfit simulate`: runs the pure decisions of scheduler, agent and autoscaler under
load and faults."""
