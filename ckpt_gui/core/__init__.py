"""The core: no Qt, no argparse, no print. Words and data path are in the README."""
