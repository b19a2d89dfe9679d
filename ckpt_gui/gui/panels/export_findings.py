"""What the export dialog says of findings: what blocks stands at the top, the rest in a card."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QHBoxLayout, QVBoxLayout, QWidget

from ckpt_gui.core.errors import CheckpointError, Finding
from ckpt_gui.gui.error_report import error_report, error_sentence
from ckpt_gui.gui.language import said
from ckpt_gui.gui.looks import SEVERITY_STYLES
from ckpt_gui.gui.panels.parts import Card, clear
from ckpt_gui.gui.theme import Theme
from ckpt_gui.gui.widgets.banner import Banner
from ckpt_gui.gui.widgets.trouble_line import report_button
from ckpt_gui.gui.widgets.units import GRID, em, heading, plain_label, quoted


class FindingsCard(Card):
    """What is good to know before an export; hidden where there is nothing."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._rows = QVBoxLayout()
        self._rows.setSpacing(GRID)
        self.body.addWidget(heading(self.tr("Good to know")))
        self.body.addLayout(self._rows)

    def show_findings(self, findings: Sequence[Finding]) -> None:
        """Show findings that block nothing."""
        clear(self._rows)
        for finding in findings:
            self._rows.addWidget(self._row(finding))
        self.setVisible(bool(findings))

    def _row(self, finding: Finding) -> QWidget:
        glyph, word, role = SEVERITY_STYLES[finding.severity]
        row = QWidget()
        box = QHBoxLayout(row)
        box.setContentsMargins(0, 0, 0, 0)
        box.setSpacing(GRID)
        mark = plain_label(glyph, wrap=False)
        mark.setStyleSheet(f"color: {self._theme.color(role).name()}; font-weight: 600;")
        mark.setFixedWidth(em(self, 1.1))
        mark.setAccessibleName(said(word))
        mark.setToolTip(said(word))
        texts = QVBoxLayout()
        texts.setSpacing(2)
        texts.addWidget(plain_label(quoted(finding.message)))
        fix = fix_here(finding)
        if fix:
            texts.addWidget(plain_label(quoted(fix), muted=True))
        box.addWidget(mark, 0, Qt.AlignmentFlag.AlignTop)
        box.addLayout(texts, 1)
        row.setAccessibleName(f"{said(word)}: {quoted(finding.message)}")
        return row


class OutcomeBanner(Banner):
    """Says what stands in the way of an export, or how the last attempt ended."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(theme, parent)
        self._blocking = False
        self._report = ""
        self.copy_button = report_button()
        self.add_button(self.copy_button)
        self.copy_button.hide()
        self.copy_button.clicked.connect(lambda: QGuiApplication.clipboard().setText(self._report))
        self.hide()

    def show_blocking(self, findings: Sequence[Finding]) -> None:
        """Say what blocks; nothing if nothing does."""
        if findings:
            words = [quoted(f"{f.message} {fix_here(f)}".strip()) for f in findings[1:]]
            detail = "\n".join([quoted(fix_here(findings[0])), *words]).strip()
            self.show_text("red", "✗", quoted(findings[0].message), detail)
        self._blocking = bool(findings)
        self.setVisible(self._blocking)

    def say_error(self, error: BaseException, command: str, detail: str = "") -> None:
        """Say why the last attempt failed; what the sentence does not tell in full can be copied."""
        if isinstance(error, CheckpointError):
            self.say("red", "✗", quoted(error.message), quoted(error.fix or ""))
        else:
            self.say("red", "✗", quoted(error_sentence(error)), detail)
            self._report = error_report(error, command)
            self.copy_button.show()

    def say(self, role: str, glyph: str, title: str, detail: str) -> None:
        """Say how the last attempt ended, unless something blocks the next one."""
        self.copy_button.hide()
        if not self._blocking:
            self.show_text(role, glyph, title, detail)
            self.show()


def fix_here(finding: Finding) -> str:
    """Say what to do about a finding, by the buttons of the export dialog where it has them."""
    if finding.code in ("config-missing", "tokenizer-missing"):
        return said("Use “Take from a folder…” above to carry them along.")
    if finding.code == "heads-unknown":
        return said("Give the head counts below, or open the checkpoint with its config.json.")
    if "--lora-alpha" in (finding.fix or ""):
        return said("Give alpha below, as it was in training.")
    return finding.fix or ""
