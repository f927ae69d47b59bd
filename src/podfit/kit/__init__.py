"""Things with no Kubernetes in them: clocks, backoff, tasks, files, logs."""
