"""Fail if one of the named packages can be imported: proves that a leg of the tests really runs without them."""

from __future__ import annotations

import importlib.util
import sys


def main() -> int:
    """Print what is there and should not be."""
    present = [name for name in sys.argv[1:] if importlib.util.find_spec(name) is not None]
    if present:
        print(f"should not be installed in {sys.prefix}: {', '.join(present)}")
    return 1 if present else 0


if __name__ == "__main__":
    sys.exit(main())
