"""Panels of the window: each shows the session's snapshot, or emits wishes."""
