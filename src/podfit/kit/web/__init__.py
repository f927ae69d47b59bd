"""HTTP listeners and the addresses they listen on."""
