"""What is said of a checkpoint or an export: as JSON of schema 1, as SARIF, and as a document for `text` to write.

Pure: plan or export in, values out. The command line and the window show the same words.
"""

from __future__ import annotations

from ckpt_gui.core.report.as_json import (
    MOST_KEYS,
    SCHEMA,
    Outcome,
    adapter_json,
    check_json,
    export_json,
    failure_json,
    finding_json,
)
from ckpt_gui.core.report.as_sarif import sarif
from ckpt_gui.core.report.check_report import check_document, failure_document, next_command, tie_sentence
from ckpt_gui.core.report.diff_json import diff_failure_json, diff_json
from ckpt_gui.core.report.diff_report import diff_document, diff_failure_document
from ckpt_gui.core.report.export_report import (
    export_document,
    left_out,
    mapping,
    missing_for_use,
    step_texts,
    use_sentences,
    written_sentence,
)
from ckpt_gui.core.report.facts import Facts, facts, status
from ckpt_gui.core.report.pages import check_page, export_page

__all__ = [
    "MOST_KEYS", "SCHEMA", "Facts", "Outcome", "adapter_json", "check_document", "check_json", "check_page",
    "diff_document", "diff_failure_document", "diff_failure_json", "diff_json", "export_document", "export_json",
    "export_page", "facts", "failure_document", "failure_json", "finding_json", "left_out", "mapping",
    "missing_for_use", "next_command", "sarif", "status", "step_texts", "tie_sentence", "use_sentences",
    "written_sentence",
]  # fmt: skip
