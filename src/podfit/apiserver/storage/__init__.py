"""Access to stored objects for the rest of the server: decodes, caches and watches them."""
