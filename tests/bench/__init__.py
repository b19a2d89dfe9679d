"""The benchmark: `python -m tests.bench`, or `make bench`. Figures are ratios against peers in the same run."""
