"""CNI: runs the chain of plugins in a configuration (https://www.cni.dev/docs/spec, versions up to 1.1.0)."""
