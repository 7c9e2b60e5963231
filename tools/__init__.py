"""Maintainers' tools: run from a checkout, never shipped. See README.md."""
