"""The first tab of the inspector: what the headers say of one tensor, and what an export makes of it. Reads no data."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QFrame, QScrollArea, QVBoxLayout, QWidget

from ckpt_gui.core.diff import Row
from ckpt_gui.core.dtypes import BY_NAME
from ckpt_gui.core.export import Export
from ckpt_gui.core.keys import safe_text
from ckpt_gui.core.tensors import TensorRef
from ckpt_gui.gui.jobs import Job
from ckpt_gui.gui.language import said
from ckpt_gui.gui.models.overview import Overview
from ckpt_gui.gui.models.relations import Relations
from ckpt_gui.gui.panels.inspector_overview import OverviewPage
from ckpt_gui.gui.session import Session
from ckpt_gui.gui.snapshot import Snapshot
from ckpt_gui.gui.theme import Theme
from ckpt_gui.gui.widgets.banner import Banner
from ckpt_gui.gui.widgets.facts import FactList
from ckpt_gui.gui.widgets.scroll_body import ScrollBody
from ckpt_gui.gui.widgets.trouble_line import TroubleLine
from ckpt_gui.gui.widgets.units import GRID, breakable
from ckpt_gui.gui.wording import capital, count_text, human_bytes, shape_text

SHARERS_SHOWN = 6
MANY = 20_000  # tensors above which their relations are looked up in a job: 60 ms


class DetailsTab(QScrollArea):
    """Facts of the selected row."""

    def __init__(self, session: Session, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._jobs, self._theme = session.jobs, theme
        self._overview: Overview | None = None
        self._job: Job | None = None
        self._row: Row | None = None
        self._snapshot: Snapshot | None = None
        self._relations: tuple[Export, Relations] | None = None
        self.setWidgetResizable(True)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.banner = Banner(theme)
        self.trouble = TroubleLine(session.jobs)
        self.overview = OverviewPage(theme)
        self.names, self.tensor, self.place, self.export = self._make_lists()
        self._lay_out()
        theme.changed.connect(self._fill)
        self._fill()

    def _make_lists(self) -> tuple[FactList, FactList, FactList, FactList]:
        tr = self.tr
        names = FactList(
            tr("Name"), [("key", tr("In the file")), ("expected", tr("Expected")), ("section", tr("Section"))],
            copied=("key", "expected"),
        )  # fmt: skip
        tensor = FactList(
            tr("Tensor"),
            [("shape", tr("Shape")), ("wanted", tr("Expected")), ("dtype", tr("Type")), ("bytes", tr("Size"))],
        )
        place = FactList(
            tr("Where it lies"),
            [
                ("file", tr("File")), ("storage", tr("Storage")), ("offset", tr("Offset")), ("strides", tr("Strides")),
                ("shared", tr("Shared with")),
            ],
        )  # fmt: skip
        export = FactList(
            tr("In the export"),
            [("written", tr("Written as")), ("type", tr("Type")), ("ops", tr("Values")), ("left", tr("Left out"))],
            copied=("written",),
        )
        return names, tensor, place, export

    def _lay_out(self) -> None:
        body = ScrollBody()
        column = QVBoxLayout(body)
        column.setContentsMargins(12, 12, 12, 12)
        column.setSpacing(2 * GRID)
        for widget in (self.overview, self.banner, self.names, self.tensor, self.place, self.export, self.trouble):
            column.addWidget(widget)
        column.addStretch(1)
        self.setWidget(body)

    def show_row(self, row: Row | None, snapshot: Snapshot | None, overview: Overview | None = None) -> None:
        """Show a row of the diff; without one the overview of a group, or of everything."""
        self._row, self._snapshot, self._overview = row, snapshot, overview
        self._fill()

    def _fill(self) -> None:
        row, snapshot = self._row, self._snapshot
        shown = row is not None and snapshot is not None
        self.trouble.say("")
        self.overview.setVisible(not shown)
        self.banner.setVisible(shown)
        for facts in (self.names, self.tensor, self.place, self.export):
            facts.clear()
        if row is None or snapshot is None:
            whole = snapshot.overview if snapshot is not None else None
            self.overview.show_overview(self._overview or whole)
            return
        self._fill_names(row)
        self._fill_tensor(row)
        if row.ref is not None:
            self._fill_place(row.ref)
            relations = self._related(snapshot)
            if relations is not None:
                self._fill_relations(row.ref, relations, snapshot)

    def _related(self, snapshot: Snapshot) -> Relations | None:
        """Return who is related to whom; None while a job looks it up, which fills the rest when it is done."""
        if self._relations is not None and self._relations[0] is snapshot.export:
            return self._relations[1]
        self._relations = None
        self._jobs.cancel(self._job, silently=True)
        if len(snapshot.source.refs) <= MANY:
            self._keep(snapshot.export, Relations(snapshot.plan.source, snapshot.export))
            return self._related(snapshot)
        self._job = self._jobs.start(
            self.tr("Looking up what shares bytes"),
            lambda _: Relations(snapshot.plan.source, snapshot.export),
            lambda found: self._looked_up(snapshot.export, found), self.trouble.say_error, quiet=True,
        )  # fmt: skip
        return None

    def _keep(self, export: Export, relations: Relations) -> None:
        self._relations = (export, relations)

    def _looked_up(self, export: Export, relations: Relations) -> None:
        self._keep(export, relations)
        self._fill()

    def _fill_relations(self, ref: TensorRef, relations: Relations, snapshot: Snapshot) -> None:
        self._fill_sharers(ref, relations)
        self._fill_export(ref, relations, snapshot)

    def _fill_names(self, row: Row) -> None:
        style = self._theme.state(row.state)
        note = safe_text(row.note)
        self.banner.show_text(style.colour, style.glyph, said(style.word).capitalize(), capital(said(note)))
        fixed = self._theme.fixed_font()
        self.names.set_value("key", safe_text(row.key, 2000), raw=row.key, font=fixed)
        self.names.set_value("expected", safe_text(row.expected, 2000), raw=row.expected, font=fixed)
        section = " → ".join(safe_text(part) for part in row.ref.section) if row.ref else ""
        self.names.set_value("section", section)

    def _fill_tensor(self, row: Row) -> None:
        if row.shape is not None:
            self.tensor.set_value("shape", _with_product(row.shape))
        if row.expected_shape is not None and row.expected_shape != row.shape:
            self.tensor.set_value("wanted", shape_text(row.expected_shape))
        dtype = BY_NAME.get(row.dtype)
        bits = self.tr("{dtype}, {bits} bits each").format(dtype=row.dtype, bits=dtype.bits) if dtype else row.dtype
        self.tensor.set_value("dtype", bits)
        if row.ref is not None:
            exact = self.tr("{size} ({n} bytes)").format(size=human_bytes(row.nbytes), n=count_text(row.nbytes))
            self.tensor.set_value("bytes", exact if row.nbytes >= 1024 else self.tr("{n} bytes").format(n=row.nbytes))

    def _fill_place(self, ref: TensorRef) -> None:
        self.place.set_value("file", safe_text(ref.file))
        self.place.set_value("storage", safe_text(ref.storage) if ref.storage != ref.key else "")
        self.place.set_value("offset", self.tr("byte {n}").format(n=count_text(ref.offset)) if ref.file else "")
        strides = " × ".join(count_text(s) for s in ref.strides) if ref.strides else ""
        self.place.set_value("strides", self.tr("{strides} elements").format(strides=strides) if strides else "")

    def _fill_sharers(self, ref: TensorRef, relations: Relations) -> None:
        sharers = relations.sharers(ref)
        names = [safe_text(other.full_key) for other in sharers[:SHARERS_SHOWN]]
        if len(sharers) > SHARERS_SHOWN:
            names.append(self.tr("and {n} more").format(n=count_text(len(sharers) - SHARERS_SHOWN)))
        self.place.set_value("shared", breakable("\n".join(names)), font=self._theme.fixed_font())

    def _fill_export(self, ref: TensorRef, relations: Relations, snapshot: Snapshot) -> None:
        reason, entries = relations.reason(ref), relations.entries(ref)
        self.export.set_value("left", capital(safe_text(reason)))
        if not entries:
            return
        written = "\n".join(safe_text(e.key, 2000) for e in entries)
        raw = "\n".join(e.key for e in entries)
        self.export.set_value("written", written, raw=raw, font=self._theme.fixed_font())
        cast = entries[0].output.dtype
        self.export.set_value("type", f"{ref.dtype} → {cast}" if cast != ref.dtype else "")
        words = "; ".join(op.describe(snapshot.plan.dims) for op in entries[0].ops)
        self.export.set_value("ops", capital(words) if words else self.tr("Unchanged, byte for byte"))


def _with_product(shape: tuple[int, ...]) -> str:
    """Return a shape with its number of elements.

    >>> _with_product((2, 3)), _with_product((5,))
    ('2 × 3 = 6', '5')
    """
    number = 1
    for size in shape:
        number *= size
    return (
        f"{shape_text(shape)} = {count_text(number)}"
        if len(shape) > 1
        else count_text(number)
        if shape
        else shape_text(shape)
    )
