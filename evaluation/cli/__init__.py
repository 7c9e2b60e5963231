"""The subcommands of `convergebench`, a module each."""
