"""Who listens to traces, in tests."""
