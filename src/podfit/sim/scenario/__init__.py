"""A scenario: nodes, workloads, usage curves and faults, read from YAML."""
