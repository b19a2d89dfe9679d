"""The command line: one file a command, argparse only, and nothing heavy imported before it is needed."""
