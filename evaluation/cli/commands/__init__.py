"""The commands of `convergebench`, one module each.

A module has HELP, `add_arguments(parser)` and `run(args)`, which returns the exit code.
"""
