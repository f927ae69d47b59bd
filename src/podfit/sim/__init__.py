"""A cluster in virtual time: the pure decisions of scheduler, agent and autoscaler under load and faults."""
