"""What a container needs to run: its runtime configuration, environment, volumes, and the objects they refer to."""
