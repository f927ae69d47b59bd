"""Grammars and text forms that Kubernetes objects share: names, patterns, and values as Go prints them."""
