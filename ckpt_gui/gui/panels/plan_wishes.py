"""Turns ticks and ways out of the fix plan into decisions of the session."""

from __future__ import annotations

import dataclasses
from functools import partial

from PySide6.QtCore import QObject, QPoint, Signal
from PySide6.QtWidgets import QMenu, QWidget

from ckpt_gui.core.plan import Step
from ckpt_gui.gui.language import said
from ckpt_gui.gui.models.plan_rows import asks_for_tick
from ckpt_gui.gui.models.resolutions import Resolution
from ckpt_gui.gui.models.rule_list import with_rule_moved, without_rule
from ckpt_gui.gui.session import Session


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

    def resolve(self, way: Resolution) -> None:
        """Take a way out."""
        policy = self._session.decisions.policy
        if way.kind == "drop":
            policy = dataclasses.replace(policy, dropped=policy.dropped | {way.value})
        elif way.kind == "take":
            policy = dataclasses.replace(policy, skip=policy.skip - {way.value})
        elif way.kind == "tie":
            policy = dataclasses.replace(policy, tie=way.value)
        elif way.kind == "remove":
            policy = without_rule(policy, int(way.value))
        elif way.kind in ("up", "down"):
            policy = with_rule_moved(policy, int(way.value), -1 if way.kind == "up" else 1)
        if way.kind == "action":
            self.action_wanted.emit(way.value)
        elif way.kind == "edit":
            self.rule_wanted.emit(int(way.value))
        elif way.kind == "field":
            self.field_wanted.emit(way.value)
        else:
            self._session.decide(policy=policy)

    def open_menu(self, ways: tuple[Resolution, ...], over: QWidget, point: QPoint) -> QMenu | None:
        """Offer ways out in a menu; None where there are none."""
        if not ways:
            return None
        menu = QMenu(over)
        for way in ways:
            menu.addAction(words(way).replace("&", "&&"), partial(self.resolve, way))
        menu.aboutToHide.connect(menu.deleteLater)
        menu.popup(over.mapToGlobal(point))
        return menu


def words(way: Resolution) -> str:
    """Return what a way out is called."""
    return said(way.text).format(name=way.name)
