"""Runs on a real model; not collected by pytest."""
