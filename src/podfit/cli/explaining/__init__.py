"""Why things are as they are: a pod's place, a resize's fate, an autoscaler's numbers. Each gives lines to print."""
