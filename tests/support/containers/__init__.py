"""Container runtimes, images and registries for tests."""
