"""A real model, end to end through the command line: break it, fix it, and its perplexity must return.

    python tests/real/run.py [--cache DIR]

The model is made once (`scripts/make_real_model.py`, 270 MB) and kept in the user's cache, or in DIR; broken copies
need 2 GB there while this runs. It ends with 1 if any figure is not as it must be. Needs the environment that
`make test-real` makes.
"""

from __future__ import annotations

import os
import sys
import warnings
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    warnings.simplefilter("ignore")  # of the libraries, about themselves
    from tests.real.proof import main

    sys.exit(main())
