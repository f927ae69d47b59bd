"""Grammars and text formats shared by Kubernetes objects: names, patterns, and values as Go prints them."""
