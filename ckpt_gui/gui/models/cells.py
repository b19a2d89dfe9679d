"""What all models say to Qt in the same way: the types of what is asked, and the answer to several roles at once."""

from __future__ import annotations

from PySide6.QtCore import QAbstractItemModel, QModelIndex, QModelRoleData, QModelRoleDataSpan, QPersistentModelIndex

Index = QModelIndex | QPersistentModelIndex
Asked = QModelRoleDataSpan | QModelRoleData


def answer_all(model: QAbstractItemModel, index: Index, span: Asked) -> None:
    """Answer all that Qt asks about a cell at once: it asks for seven roles, and waits for Python's lock at each."""
    assert isinstance(span, QModelRoleDataSpan)
    for at in range(span.size()):
        asked = span[at]  # type: ignore[index]  # which the stubs do not know of
        value = model.data(index, asked.role())
        asked.clearData() if value is None else asked.setData(value)
