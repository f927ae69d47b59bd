"""The autoscaler of the simulation: what policies recommend, and which pods the updater touches."""
