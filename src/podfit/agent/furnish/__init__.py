"""The inputs of a container: its runtime configuration, environment, volumes, and the objects they refer to."""
