"""The autoscaler of the simulation: recommendations of policies, and the pods that the updater changes."""
