"""The page that says what weighs what: parameters and bytes by part, kind, layer and expert, files, and loading."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtWidgets import QComboBox, QWidget

from ckpt_gui.core.file_map import ByteRange, byte_map
from ckpt_gui.core.keys import safe_text
from ckpt_gui.core.overview import Overview, overview
from ckpt_gui.core.roles import Role, in_roles
from ckpt_gui.core.text import plural
from ckpt_gui.gui.jobs import Job
from ckpt_gui.gui.language import said
from ckpt_gui.gui.models.shares import (
    file_bars,
    file_words,
    load_bars,
    number_in,
    role_bars,
    share_bars,
    tensor_bars,
)
from ckpt_gui.gui.panels.parts import Card, ElidedLabel
from ckpt_gui.gui.session import Session
from ckpt_gui.gui.snapshot import Snapshot
from ckpt_gui.gui.theme import Theme
from ckpt_gui.gui.widgets.bars import Bars
from ckpt_gui.gui.widgets.byte_map import ByteMap
from ckpt_gui.gui.widgets.live_area import LiveArea
from ckpt_gui.gui.widgets.strip import Strip
from ckpt_gui.gui.widgets.tiles import Tiles
from ckpt_gui.gui.widgets.units import heading, plain_label
from ckpt_gui.gui.wording import human_bytes, human_count

Wanted = Callable[[Role], bool]
MANY = 10_000  # tensors above which those of a role are looked for in a job


class OverviewPage(LiveArea):
    """Shows the `Overview` of what is open. Reads headers only."""

    def __init__(self, session: Session, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(session.jobs, parent)
        self._session = session
        self._shown: Snapshot | None = None
        self.overview: Overview | None = None
        self.setAccessibleName(self.tr("Overview of the checkpoint"))
        self._make(theme)
        self._connect()

    def _make(self, theme: Theme) -> None:
        tr = self.tr
        self.tiles = Tiles(
            [
                ("parameters", tr("Parameters")),
                ("bytes", tr("Weights")),
                ("types", tr("Types")),
                ("load", tr("To load")),
            ]
        )
        self.parts, self.roles = Bars(theme, live=True), Bars(theme, "teal", fixed=True, live=True)
        self.layers, self.experts = Strip(theme), Strip(theme)
        self.loads = Bars(theme, "violet")
        self.largest, self.smallest = Bars(theme, fixed=True, live=True), Bars(theme, fixed=True, live=True)
        self.files, self.map = Bars(theme, "grey", fixed=True), ByteMap(theme)
        self.file_choice, self.map_text, self.map_note = QComboBox(), ElidedLabel(), plain_label(muted=True)
        self.file_choice.setAccessibleName(tr("File whose map is shown"))
        self._experts_card = self._card(tr("By expert, all layers together"), self.experts)
        self._map_card = self._card(tr("Map of the file"), self.file_choice, self.map, self.map_text, self.map_note)
        self.lay_out(
            self.message,
            self.job,
            self.tiles,
            self._card(tr("What weighs what"), self.parts),
            self._card(tr("By layer"), self.layers),
            self._experts_card,
            self._card(tr("By kind of tensor"), self.roles),
            self._card(tr("Memory to load the weights, without what a run needs besides"), self.loads),
            self._card(tr("Largest tensors"), self.largest),
            self._card(tr("Smallest tensors"), self.smallest),
            self._card(tr("Files"), self.files),
            self._map_card,
        )
        self._show(None)

    def _card(self, title: str, *widgets: QWidget) -> Card:
        card = Card()
        card.body.addWidget(heading(title, wrap=True))
        for widget in widgets:
            card.body.addWidget(widget)
        return card

    def _connect(self) -> None:
        session = self._session
        session.changed.connect(self._on_changed)
        session.closed.connect(self._on_closed)
        self.parts.chosen.connect(lambda name: self._show_tensors(name, lambda role: role.part == name))
        self.roles.chosen.connect(lambda name: self._show_tensors(name, lambda role: role.name == name))
        self.layers.chosen.connect(self._show_layer)
        self.experts.chosen.connect(self._show_expert)
        for bars in (self.largest, self.smallest):
            bars.chosen.connect(session.show_key)
        self.map.chosen.connect(session.show_key)
        self.map.current_changed.connect(self.map_text.set_text)
        self.file_choice.activated.connect(self._show_map)

    def calculate(self) -> None:
        """Work out the overview of what is open, unless it is shown."""
        snapshot = self._session.snapshot
        if snapshot is None or snapshot is self._shown or self.job.running:
            return

        def work(_job: Job) -> tuple[Snapshot, Overview]:
            return snapshot, overview(snapshot.plan)

        self.job.run(self.tr("Adding up"), work, self._worked_out, self.say_error)

    def _on_changed(self, _snapshot: Snapshot) -> None:
        self.job.stop()
        if self.isVisible():
            self.calculate()

    def _on_closed(self) -> None:
        self.job.stop()
        self._shown = None
        self._show(None)

    def _worked_out(self, found: tuple[Snapshot, Overview]) -> None:
        self._shown, seen = found
        self.say("")
        self._show(seen)

    def _show(self, seen: Overview | None) -> None:
        self.overview = seen
        for child in self.findChildren(Card):
            child.setVisible(seen is not None)
        self.tiles.setVisible(seen is not None)
        if seen is None:
            return
        self._show_tiles(seen)
        self.parts.show_bars(share_bars(seen.by_part, seen.nbytes))
        self.roles.show_bars(role_bars(seen))
        self.layers.show_bars(self.tr("Bytes by layer"), share_bars(seen.by_layer, seen.nbytes))
        self.experts.show_bars(self.tr("Bytes by expert"), share_bars(seen.by_expert, seen.nbytes))
        self._experts_card.setVisible(bool(seen.by_expert))
        self.loads.show_bars(load_bars(seen.loads))
        self.largest.show_bars(tensor_bars(seen.largest))
        self.smallest.show_bars(tensor_bars(seen.smallest))
        self.files.show_bars(file_bars(seen.files))
        self._fill_choice(seen)

    def _show_tiles(self, seen: Overview) -> None:
        tr, aliases = self.tr, seen.parameters_stored - seen.parameters
        note = tr("{n} with every alias").format(n=human_count(seen.parameters_stored)) if aliases else tr("no aliases")
        self.tiles.set_value("parameters", human_count(seen.parameters), note)
        aside = tr("{n} aside").format(n=human_bytes(seen.aside.nbytes)) if seen.aside.tensors else ""
        self.tiles.set_value("bytes", human_bytes(seen.nbytes), aside or plural(seen.tensors, "tensor"))
        types = seen.by_dtype
        others = ", ".join(share.name for share in types[1:])
        note = tr("and {others}").format(others=others) if others else tr("throughout")
        self.tiles.set_value("types", types[0].name if types else "–", note)
        bf16 = next((load.nbytes for load in seen.loads if load.name == "bf16"), 0)
        self.tiles.set_value("load", human_bytes(bf16), tr("in bf16, weights alone"))

    # ----------------------------------------------------------------------------------------------------- the map

    def _fill_choice(self, seen: Overview) -> None:
        self.file_choice.clear()
        for file in seen.files:
            self.file_choice.addItem(safe_text(file.name, 80), file.name)
        self.file_choice.setVisible(len(seen.files) > 1)
        self._map_card.setVisible(bool(seen.files))
        if seen.files:
            self._show_map(0)

    def _show_map(self, place: int) -> None:
        snapshot, seen = self._shown, self.overview
        if snapshot is None or seen is None:
            return
        file = seen.files[place]

        def work(_job: Job) -> tuple[ByteRange, ...]:
            return byte_map(snapshot.source, file.name)

        def done(runs: tuple[ByteRange, ...]) -> None:
            self.map.setVisible(bool(runs))
            self.map_text.setVisible(bool(runs))
            self.map.show_runs(runs)
            legend = self.tr("Blue: tensors. Violet: header. Orange: nothing known, padding or packed tensors.")
            nothing = self.tr("This container does not tell where its tensors lie.")
            self.map_note.setText(f"{said(file_words(file))}. {legend if runs else nothing}")

        self.job.run(self.tr("Drawing the map"), work, done, self.say_error)

    # ------------------------------------------------------------------------------------------------------ leading

    def _show_layer(self, name: str) -> None:
        number = number_in(name)
        self._show_tensors(name, lambda role: role.layer == number)

    def _show_expert(self, name: str) -> None:
        number = number_in(name)
        self._show_tensors(name, lambda role: role.expert == number)

    def _show_tensors(self, title: str, wanted: Wanted) -> None:
        """Show in the tree the tensors whose role is wanted."""
        if self._shown is None:
            return
        plan = self._shown.plan

        def look(_job: Job | None = None) -> list[str]:
            return [ref.full_key for entry in in_roles(plan, wanted) for ref in entry.inputs]

        def show(keys: list[str]) -> None:
            self.say("")
            self._session.show_keys(keys, title)

        if len(plan.weights) > MANY:
            self.job.run(self.tr("Looking for tensors"), look, show, self.say_error)
        else:
            show(look())
