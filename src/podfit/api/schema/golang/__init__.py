"""Names, values and errors as Kubernetes' Go code prints them."""
