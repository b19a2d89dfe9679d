"""Turns ticks and ways out of the fix plan into decisions of the session."""

from __future__ import annotations

from functools import partial

from PySide6.QtCore import QObject, QPoint, Signal
from PySide6.QtWidgets import QMenu, QWidget

from ckpt_gui.core.plan import Step
from ckpt_gui.gui.models.plan_rows import asks_for_tick
from ckpt_gui.gui.models.resolutions import Way
from ckpt_gui.gui.models.rule_list import with_rule_moved, without_rule
from ckpt_gui.gui.session import Session
from ckpt_gui.gui.widgets.units import quoted


class PlanWishes(QObject):
    """Acts for the plan of one session.

    Signals:
        action_wanted(id): A way out is an action of the window.
        rule_wanted(number): The user wants to change a rule.
        field_wanted(name): The user wants to change a field of the config; empty for any.
    """

    action_wanted = Signal(str)
    rule_wanted = Signal(int)
    field_wanted = Signal(str)

    def __init__(self, session: Session, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._session = session

    def tick(self, step: Step) -> None:
        """Leave a step out or take it again; agree to one that nothing proves; take a wish back."""
        session = self._session
        if asks_for_tick(step):
            session.confirm(step)
        elif step.id == "cast":
            session.change_target(dtype="keep")
        elif step.id == "assigned":
            session.change_policy(assigned_only=False)
        elif step.id == "merge":
            session.unmerge()
        elif step.id == "fields":
            session.change_policy(config=())
        elif step.id == "metadata":
            session.change_target(metadata=())
        elif step.id == "drop":
            session.change_policy(dropped=frozenset())
        else:
            session.change_policy(skip=session.decisions.policy.skip ^ {step.id})

    def resolve(self, way: Way) -> None:
        """Do what a button or a line of the menu is for."""
        policy = self._session.decisions.policy
        if way.kind == "action":
            self.action_wanted.emit(way.value)
        elif way.kind == "edit":
            self.rule_wanted.emit(int(way.value))
        elif way.kind == "field":
            self.field_wanted.emit(way.value)
        elif way.decided is not None:
            self._session.decide(policy=way.decided.policy, target=way.decided.target)
        elif way.kind == "remove":
            self._session.decide(policy=without_rule(policy, int(way.value)))
        else:
            self._session.decide(policy=with_rule_moved(policy, int(way.value), -1 if way.kind == "up" else 1))

    def open_menu(self, ways: tuple[Way, ...], over: QWidget, point: QPoint) -> QMenu | None:
        """Offer ways out in a menu; None where there are none."""
        if not ways:
            return None
        menu = QMenu(over)
        for way in ways:
            menu.addAction(words(way).replace("&", "&&"), partial(self.resolve, way))
        menu.aboutToHide.connect(menu.deleteLater)
        menu.popup(over.mapToGlobal(point))
        return menu


def words(way: Way) -> str:
    """Return what a way out is called."""
    return quoted(way.text)
