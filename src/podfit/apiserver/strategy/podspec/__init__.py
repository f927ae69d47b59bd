"""The spec of a pod, in a pod or in a template: defaults and validation, one module per part."""
