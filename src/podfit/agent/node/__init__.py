"""The Node object, and the machine behind it: registration, pressure, disk usage, eviction."""
