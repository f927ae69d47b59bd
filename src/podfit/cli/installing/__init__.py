"""The parts of `podfit install`: manifests, prerequisite checks, and the wait for the rollout."""
