"""Families: architectures and the ways they are stored, as tables."""
