"""The health of a whole model by its numbers: every weight read once, and what looks wrong pointed at."""

from ckpt_gui.core.scan.result import Place, Rows, Scan, Strip, TensorScan, roles_of, strip
from ckpt_gui.core.scan.run import scan

__all__ = ["Place", "Rows", "Scan", "Strip", "TensorScan", "roles_of", "scan", "strip"]
