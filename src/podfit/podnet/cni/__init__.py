"""CNI: any chain of plugins that a configuration names (https://www.cni.dev/docs/spec, versions up to 1.1.0)."""
