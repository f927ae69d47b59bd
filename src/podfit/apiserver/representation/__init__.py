"""How objects are shown: JSON, YAML, metadata only, and which objects a list selects."""
