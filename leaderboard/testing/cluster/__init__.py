"""The machines of docs/operating.md as processes of one machine, to kill them in tests."""
