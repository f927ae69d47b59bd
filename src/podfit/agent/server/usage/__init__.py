"""What pods and containers use, in the forms that clients ask for."""
