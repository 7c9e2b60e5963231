"""What visitors bring, for those who look after it."""
