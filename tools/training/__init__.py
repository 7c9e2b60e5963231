"""Training of the networks that ship with the reference editors."""
