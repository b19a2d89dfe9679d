"""The style sheet over Qt's Fusion style; `@role` stands for a colour of the theme, `%name` for an icon."""

from __future__ import annotations

from collections.abc import Mapping

from ckpt_gui.desktop.resources import resource

# Properties that widgets set: card, title, kind="primary|quiet|chip", tone="muted".
_SHEET = """
QMainWindow, QDialog { background: @window; }
QMainWindow::separator { background: @window; width: 6px; height: 6px; }
QMainWindow::separator:hover { background: @border; }
QFrame[card="true"] { background: @surface; border: 1px solid @border; border-radius: 8px; }
QLabel { background: transparent; }
QLabel[tone="muted"] { color: @muted; }
QScrollArea, QScrollArea > QWidget > QWidget[plain="true"] { background: transparent; border: none; }
QToolTip { background: @surface; color: @text; border: 1px solid @strong_border; padding: 4px; }

QMenuBar { background: @window; padding: 2px 8px; }
QMenuBar::item { padding: 4px 8px; border-radius: 4px; background: transparent; }
QMenuBar::item:selected { background: @raised; }
QMenu { background: @surface; border: 1px solid @border; padding: 4px; }
QMenu::item { padding: 5px 28px 5px 24px; border-radius: 4px; }
QMenu::item:selected { background: @selection; color: @text; }
QMenu::item:disabled { color: @disabled; }
QMenu::separator { height: 1px; background: @border; margin: 4px 8px; }

QToolBar { background: @window; border: none; border-bottom: 1px solid @border; padding: 6px 12px; spacing: 8px; }
QToolBarExtension { padding: 0; }
QDialogButtonBox { dialogbuttonbox-buttons-have-icons: 0; }
QToolBar::separator { background: @border; width: 1px; margin: 4px; }

QPushButton, QToolButton { background: @surface; border: 1px solid @border; border-radius: 6px; padding: 5px 12px;
  color: @text; }
QPushButton:hover, QToolButton:hover { background: @hover; border-color: @strong_border; }
QPushButton:pressed, QToolButton:pressed { background: @selection; }
QPushButton:focus, QToolButton:focus { border: 2px solid @focus; padding: 4px 11px; }
QPushButton:disabled, QToolButton:disabled { color: @disabled; background: @window; border-color: @border; }
QPushButton[kind="primary"], QToolButton[kind="primary"] { background: @accent; border-color: @accent;
  color: @on_accent; font-weight: 600; }
QPushButton[kind="primary"]:hover, QToolButton[kind="primary"]:hover { background: @accent_hover; }
QPushButton[kind="primary"]:focus, QToolButton[kind="primary"]:focus { background: @surface; color: @accent;
  border: 2px solid @focus; }
QPushButton[kind="primary"]:disabled, QToolButton[kind="primary"]:disabled { background: @raised;
  border-color: @border; color: @disabled; }
QPushButton[kind="quiet"], QToolButton[kind="quiet"] { background: transparent; border: 2px solid transparent;
  padding: 3px 8px; }
QPushButton[kind="quiet"]:hover, QToolButton[kind="quiet"]:hover { background: @hover; }
QPushButton[kind="quiet"]:focus, QToolButton[kind="quiet"]:focus { border-color: @focus; }
QToolButton::menu-indicator { image: none; width: 0; }
QToolButton[popupMode="1"] { padding-right: 30px; }
QToolButton::menu-button { border: none; border-left: 1px solid @border; width: 20px; margin: 5px 0; }
QToolButton::menu-arrow, QComboBox::down-arrow { image: url("%chevron-down"); width: 12px; height: 12px; }
QComboBox::drop-down { border: none; width: 24px; }
QAbstractSpinBox::up-button, QAbstractSpinBox::down-button { border: none; width: 20px; background: transparent; }
QAbstractSpinBox::up-arrow { image: url("%chevron-up"); width: 10px; height: 10px; }
QAbstractSpinBox::down-arrow { image: url("%chevron-down"); width: 10px; height: 10px; }
QAbstractScrollArea::corner { background: transparent; border: none; }
QToolButton[kind="segment"] { border-radius: 0; padding: 4px 10px; }
QToolButton[kind="segment"]:checked { background: @selection; border-color: @accent; }

QLineEdit, QComboBox, QSpinBox, QDoubleSpinBox, QPlainTextEdit, QTextEdit { background: @surface;
  border: 1px solid @border; border-radius: 6px; padding: 5px 8px; selection-background-color: @selection;
  selection-color: @text; }
QLineEdit:hover, QComboBox:hover, QSpinBox:hover { border-color: @strong_border; }
QLineEdit:focus, QComboBox:focus, QSpinBox:focus, QDoubleSpinBox:focus, QPlainTextEdit:focus, QTextEdit:focus {
  border: 2px solid @focus; padding: 4px 7px; }
QLineEdit[wrong="true"], QLineEdit[wrong="true"]:focus { border: 2px solid @red; padding: 4px 7px; }
QCheckBox, QRadioButton { border: 2px solid transparent; border-radius: 4px; padding: 1px 3px; }
QCheckBox:focus, QRadioButton:focus { border-color: @focus; }
QCheckBox:disabled, QRadioButton:disabled, QLabel:disabled { color: @disabled; }
QCheckBox::indicator, QRadioButton::indicator { width: 0.8em; height: 0.8em; border: 1px solid @strong_border;
  background: @surface; }
QCheckBox::indicator { border-radius: 3px; }
QRadioButton::indicator { border-radius: 0.4em; }
QCheckBox::indicator:checked { background: @accent; border-color: @accent; image: url("%check"); }
QRadioButton::indicator:checked { background: qradialgradient(cx: 0.5, cy: 0.5, radius: 0.5, fx: 0.5, fy: 0.5,
  stop: 0 @accent, stop: 0.55 @accent, stop: 0.65 @surface); border-color: @accent; }
QCheckBox::indicator:disabled, QRadioButton::indicator:disabled { border-color: @border; background: @window; }
QCheckBox::indicator:checked:disabled { background: @disabled; }
QComboBox { padding-right: 22px; }
QAbstractSpinBox QLineEdit, QAbstractSpinBox QLineEdit:focus { border: none; padding: 0 6px; background: transparent; }
QComboBox QLineEdit, QComboBox QLineEdit:focus { border: none; padding: 0; background: transparent; }
QComboBox:disabled, QLineEdit:disabled { color: @disabled; background: @window; }
QComboBox QAbstractItemView { background: @surface; border: 1px solid @border; selection-background-color: @selection;
  selection-color: @text; outline: none; }

QTreeView, QTableView, QListView, QTableWidget, QTreeWidget { background: @surface;
  alternate-background-color: @zebra; border: 1px solid @border; border-radius: 8px; padding: 1px; outline: none; }
QTreeView:focus, QTableView:focus, QListView:focus { border: 2px solid @focus; padding: 0; }
QTreeView::item { padding: 2px 4px; border: none; border-top: 1px solid transparent;
  border-bottom: 1px solid transparent; }
QTreeView::item:hover { background: @hover; }
QTableView[keys="true"]::item { padding: 0 4px; border: none; }
QTableView[keys="true"]::item:selected { background: @selection; color: @text; }
QTreeView::item:selected { background: @selection; color: @text; }
QTreeView::item:selected:focus, QTreeView::item:selected:active { border-color: @focus; }
QTreeView::branch:selected { background: @selection; }
QTreeView::branch:hover { background: @hover; }
QHeaderView { background: transparent; border: none; }
QHeaderView::section { background: @surface; color: @muted; border: none; border-bottom: 1px solid @border;
  padding: 6px 6px; font-weight: 600; }
QHeaderView::section:vertical { padding: 0 8px; border-bottom: none; border-right: 1px solid @border;
  font-weight: 400; }
QTableCornerButton::section { background: @surface; border: none; border-bottom: 1px solid @border; }

QTabWidget::pane { border: 1px solid @border; border-radius: 8px; background: @surface; top: -1px; }
QTabBar::tab { background: transparent; color: @muted; padding: 6px 12px; border: none;
  border-bottom: 2px solid transparent; }
QTabBar::scroller { width: 3em; }
QTabBar QToolButton { padding: 0; border-radius: 4px; }
QTabBar QToolButton::left-arrow { image: url("%chevron-left"); }
QTabBar QToolButton::right-arrow { image: url("%chevron-right"); }
QTabBar::tab:selected { color: @text; border-bottom-color: @accent; }
QTabBar::tab:hover { color: @text; }
QTabBar::tab:focus { border: 2px solid @focus; border-radius: 4px; padding: 5px 10px; color: @text; }

QStatusBar { background: @window; border-top: 1px solid @border; }
QStatusBar::item { border: none; }
QProgressBar { background: @raised; border: none; border-radius: 4px; text-align: center; color: @text; }
QProgressBar::chunk { background: @accent; border-radius: 4px; }

QScrollBar:vertical { background: transparent; width: 12px; margin: 2px; }
QScrollBar:horizontal { background: transparent; height: 12px; margin: 2px; }
QScrollBar::handle { background: @border; border-radius: 4px; min-height: 28px; min-width: 28px; }
QScrollBar::handle:hover { background: @strong_border; }
QScrollBar::add-line, QScrollBar::sub-line { width: 0; height: 0; }
QScrollBar::add-page, QScrollBar::sub-page { background: transparent; }
QSplitter::handle { background: transparent; }
"""


_STILL = "* { widget-animation-duration: 0; }\n"


def style_sheet(colours: Mapping[str, str], *, still: bool = False) -> str:
    """Return the sheet for a scheme: role → colour; `still` where nothing may move by itself."""
    sheet = _SHEET + (_STILL if still else "")
    tick = "check-light" if colours["on_accent"] == "#ffffff" else "check-dark"
    for name in ("chevron-down", "chevron-up", "chevron-left", "chevron-right"):
        sheet = sheet.replace(f"%{name}", resource(f"icons/{name}.svg").as_posix())
    sheet = sheet.replace("%check", resource(f"icons/{tick}.svg").as_posix())
    for role in sorted(colours, key=len, reverse=True):
        sheet = sheet.replace(f"@{role}", colours[role])
    return sheet
