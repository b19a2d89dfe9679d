"""The window: shows what the core says, and tells it what the user wants."""
