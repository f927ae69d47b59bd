"""Flow control: the conditions of flow schemas, and the schemas and levels that every cluster has."""
