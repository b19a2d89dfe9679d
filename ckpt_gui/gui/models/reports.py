"""Reports of what a window shows, written to a file: for a job."""

from __future__ import annotations

from pathlib import Path

from ckpt_gui.core.compare import Comparison
from ckpt_gui.core.compare.findings import diff_findings
from ckpt_gui.core.plan import Plan
from ckpt_gui.core.report import check_json, check_page, diff_document, diff_json, sarif
from ckpt_gui.core.report.as_file import report_text
from ckpt_gui.core.report.pictures import changed_picture, layer_pictures, tied_picture
from ckpt_gui.core.scan import Scan
from ckpt_gui.core.text import Figure
from ckpt_gui.gui.jobs import Job


def save_check(path: str, plan: Plan, scanned: Scan | None, job: Job) -> None:
    """Write what is said of a checkpoint, with the pictures that a page can show.

    Raises:
        OSError: The file can not be written.
        CheckpointError: The pair can not be read.
    """
    figures: tuple[Figure, ...] = ()
    if path.lower().endswith(".html"):
        figures = (*tied_picture(plan, progress=job.progress), *(layer_pictures(scanned) if scanned else ()))
    found = plan.found(*scanned.findings) if scanned else plan
    page = check_page(found, None, scanned, figures)
    log = sarif(plan.source.path, found.findings)
    Path(path).write_text(report_text(path, page, check_json(found, None, scanned), log), encoding="utf-8")


def save_diff(path: str, result: Comparison, job: Job) -> None:
    """Write what a comparison says, with a picture of what has changed most.

    Raises:
        OSError: The file can not be written.
        CheckpointError: The pair can not be read.
    """
    figures = changed_picture(result, progress=job.progress) if path.lower().endswith(".html") else ()
    findings = diff_findings(result)
    document = diff_document(result, [row for row in result.rows if not row.is_same], findings, figures)
    value = diff_json(result, result.rows, findings)
    text = report_text(path, document, value, sarif(result.a.name, findings))
    Path(path).write_text(text, encoding="utf-8")
