"""This process and the machine: logs, garbage collection, memory pages, capabilities."""
