"""What expressions may cost, estimated before they run and counted while they do."""
