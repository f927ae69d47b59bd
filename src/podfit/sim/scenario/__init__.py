"""What is simulated: nodes, workloads, usage curves and faults, read from YAML."""
