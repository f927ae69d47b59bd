"""A pod's volumes, and the objects they contain."""
