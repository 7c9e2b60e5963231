"""Commands that hand a run on, and check what others hand on."""
