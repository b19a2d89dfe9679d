"""Every container has a title in the window as it has in reports."""

from __future__ import annotations

from ckpt_gui.core.report.opening import CONTAINERS
from ckpt_gui.gui.models import card


def test_every_container_has_a_title():
    assert card.CONTAINERS.keys() == CONTAINERS.keys()
