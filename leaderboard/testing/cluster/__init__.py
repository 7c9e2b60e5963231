"""The topology of docs/operating.md as processes of one machine, to test it by killing parts."""
