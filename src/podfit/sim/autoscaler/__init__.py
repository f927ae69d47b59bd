"""The autoscaler of the simulation: recommendations from policies, and an updater that selects the pods to change."""
