"""Runs that are not played to the end: what they still need is looked at while they are played."""
