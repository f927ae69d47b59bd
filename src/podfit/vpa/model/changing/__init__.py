"""Rules on whether and how a pod may be changed, shared by admission and updater."""
