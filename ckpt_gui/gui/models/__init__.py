"""Item models: thin adapters between the core and Qt's views."""
