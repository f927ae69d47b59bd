"""Pod Security admission: the baseline and restricted standards, which namespaces select with labels."""
