"""The third tab of the inspector: the input embedding and the output head, side by side.

The verdict is by bytes, and says what follows from it: for loaders that believe the config, and for an export.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtWidgets import QWidget

from ckpt_gui.core.keys import safe_text
from ckpt_gui.core.plan import Tie
from ckpt_gui.core.tensors import TensorRef
from ckpt_gui.core.tokens import vocabulary
from ckpt_gui.gui.jobs import Job
from ckpt_gui.gui.session import Session
from ckpt_gui.gui.snapshot import Snapshot
from ckpt_gui.gui.theme import Theme
from ckpt_gui.gui.widgets.banner import Banner
from ckpt_gui.gui.widgets.compare_table import CompareTable
from ckpt_gui.gui.widgets.facts import FactList
from ckpt_gui.gui.widgets.live_area import LiveArea
from ckpt_gui.gui.widgets.plot_canvas import PlotCanvas
from ckpt_gui.gui.widgets.tiles import Tiles
from ckpt_gui.gui.widgets.units import em
from ckpt_gui.gui.wording import count_text, shape_text
from ckpt_gui.plots import PairPlot

if TYPE_CHECKING:
    from ckpt_gui.core.stats import PairStats

ROWS_NAMED = 12  # rows that differ and are named one by one
PairName = tuple[object, ...]
Tokens = tuple[str | None, ...]  # what the first rows that differ stand for
Found = tuple["PairStats", Tokens]


class TiedTab(LiveArea):
    """Everything about the pair; calculated while the tab is looked at, and kept as long as the pair is the same."""

    def __init__(self, session: Session, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(session.jobs, parent)
        self._session, self._theme = session, theme
        self._snapshot: Snapshot | None = None
        self._known: tuple[PairName, PairStats, Tokens] | None = None
        tr = self.tr
        self.banner = Banner(theme)
        self.names = FactList("", [("embedding", tr("Embedding")), ("head", tr("Output head"))], ("embedding", "head"))
        self.facts = Tiles([("max", tr("Largest |Δ|")), ("mean", tr("Mean |Δ|")), ("cosine", tr("Cosine"))])
        self.apart = FactList(
            tr("How far apart"),
            [
                ("relative", tr("‖Δ‖/‖W‖")), ("correlation", tr("Correlation")), ("flips", tr("Other sign")),
                ("ulp", tr("Steps apart")), ("rows", tr("Rows")),
            ],
        )  # fmt: skip
        self.table = CompareTable(theme, (tr("Embedding"), tr("Head")))
        self.plot = PlotCanvas(
            session.jobs, theme, PairPlot, tr("Histograms of both tensors, and their difference by row")
        )
        self.plot.setMinimumHeight(em(self, 29))
        self.lay_out(self.banner, self.names, self.job, self.message, self.facts, self.apart, self.plot, self.table)
        self.job.stopped.connect(self._on_stopped)
        self.show_snapshot(session.snapshot)

    def show_snapshot(self, snapshot: Snapshot | None) -> None:
        """Show the pair of another snapshot; figures of the same pair stay."""
        self._snapshot = snapshot
        tie = snapshot.plan.tie if snapshot else Tie()
        for name, ref in (("embedding", tie.embedding), ("head", tie.head)):
            text = safe_text(ref.full_key, 2000) if ref else ""
            self.names.set_value(name, text, raw=ref.full_key if ref else "", font=self._theme.fixed_font())
        if self._known and self._known[0] != self._pair_name():
            self._known = None
        self.job.stop()
        self._show_pair()
        if self.isVisible():
            self.calculate()

    def has_pair(self) -> bool:
        """Return whether there is something to say: an embedding or a head was found."""
        tie = self._snapshot.plan.tie if self._snapshot else Tie()
        return tie.embedding is not None or tie.head is not None

    def _both(self) -> tuple[TensorRef, TensorRef] | None:
        tie = self._snapshot.plan.tie if self._snapshot else Tie()
        return (tie.embedding, tie.head) if tie.embedding is not None and tie.head is not None else None

    def _pair_name(self) -> PairName | None:
        both = self._both()
        if both is None or self._snapshot is None:
            return None
        return (id(self._snapshot.plan.source), *(ref.place for ref in both))

    def calculate(self) -> None:
        """Compare the two, unless their figures are known."""
        both, snapshot = self._both(), self._snapshot
        if both is None or snapshot is None or self._known or self.job.running:
            return
        a, b = both
        if a.shape != b.shape:
            return

        def work(job: Job) -> Found:
            from ckpt_gui.core.stats import StatsCache, pair_stats  # numpy: not before the window

            pair = pair_stats(
                snapshot.plan.source, a, b, progress=job.progress, cancelled=job.cancelled, cache=StatsCache()
            )
            known = vocabulary(snapshot.source.sidecars.folder) if pair.rows.differing else None
            first = pair.rows.first[:ROWS_NAMED]
            return pair, tuple(known.name(row) if known else None for row in first)

        self.say("")
        title = self.tr("Comparing the embedding with the output head")
        self.job.run(title, work, self._calculated, self.say_error)

    def _calculated(self, found: Found) -> None:
        name = self._pair_name()
        if name is not None:
            self._known = (name, *found)
        self._show_pair()

    def _on_stopped(self) -> None:
        self.say(self.tr("Stopped. Turn to this tab again to start anew."))

    def _show_pair(self) -> None:
        pair = self._known[1] if self._known else None
        self.say(pair.reason or "" if pair else "")
        figures = pair is not None and pair.reason is None
        self.facts.setVisible(figures)
        if not figures:
            self.apart.clear()
        self.table.setVisible(figures)
        self.plot.setVisible(figures)
        if pair is not None and figures:
            self._show_figures(pair)
        self._judge(pair)

    def _show_figures(self, pair: PairStats) -> None:
        where = ""
        if pair.where is not None:
            where = self.tr("row {r}, col {c}").format(r=count_text(pair.where[0]), c=count_text(pair.where[1]))
        self.facts.set_value("max", _short(pair.max_diff), where)
        self.facts.set_value("mean", _short(pair.mean_diff))
        self.facts.set_value("cosine", _short(pair.cosine, 7))
        self._show_apart(pair)
        self.table.show_pair(pair.a, pair.b)
        names = (self.tr("embedding"), self.tr("head"))
        self.plot.show_data(lambda plot: plot.show_pair(pair, names))

    def _show_apart(self, pair: PairStats) -> None:
        """Say how far apart two tensors are that differ; nothing of those that do not."""
        self.apart.clear()
        if not pair.differing:
            return
        self.apart.set_value("relative", _short(pair.relative))
        self.apart.set_value("correlation", _short(pair.correlation, 7))
        flips = self.tr("{n} of {all}").format(n=count_text(pair.sign_flips), all=count_text(pair.count))
        self.apart.set_value("flips", flips)
        if pair.max_ulp is not None:
            text = self.tr("at most {n} numbers of {dtype}")
            self.apart.set_value("ulp", text.format(n=count_text(pair.max_ulp), dtype=pair.a.dtype))
        self.apart.set_value("rows", self._rows_text(pair))

    def _rows_text(self, pair: PairStats) -> str:
        """Return which rows differ, with the tokens that they stand for where they are known."""
        rows = pair.rows
        if not rows.differing:
            return ""
        tokens = self._known[2] if self._known else ()
        named = [
            f"{count_text(row)} “{name}”" if name else count_text(row)
            for row, name in zip(rows.first, tokens, strict=False)
        ]
        more = ", …" if rows.differing > len(named) else ""
        total = pair.a.shape[0] if pair.a.shape else 1
        return self.tr("{n} of {all} differ: {rows}").format(
            n=count_text(rows.differing), all=count_text(total), rows=", ".join(named) + more
        )

    # ------------------------------------------------------------------------------------------------------- verdict

    def _judge(self, pair: PairStats | None) -> None:
        snapshot, tr = self._snapshot, self.tr
        both = self._both()
        if snapshot is None or both is None:
            self._judge_one(snapshot)
            return
        tie = snapshot.plan.tie
        state = tie.state
        if both[0].shape != both[1].shape:
            shapes = (shape_text(both[0].shape), shape_text(both[1].shape))
            self.banner.show_text("orange", "≠", tr("Different shapes: {} and {}").format(*shapes), self._follows())
        elif state == "same-storage" or (pair and pair.relation == "same storage"):
            self.banner.show_text("teal", "⚭", tr("Same storage"), self._follows())
        elif (pair and pair.relation == "equal") or (pair is None and state == "equal"):
            by_value = pair is not None and pair.by_value
            title = tr("Equal in value, of different types") if by_value else tr("Equal, byte for byte")
            self.banner.show_text("teal", "⚭", title, self._follows())
        elif pair or state == "different":
            words = pair.text if pair else tr("different")
            role, glyph = ("red", "!") if tie.flag else ("blue", "≠")
            self.banner.show_text(role, glyph, words[:1].upper() + words[1:], self._follows())
        else:
            self.banner.show_text("grey", "○", tr("Not compared yet"), self._follows())

    def _judge_one(self, snapshot: Snapshot | None) -> None:
        tr = self.tr
        tie = snapshot.plan.tie if snapshot else Tie()
        if tie.embedding is not None:
            title = tr("Only the embedding is stored")
            if tie.tied:
                detail = tr(
                    "The model is tied: its output head is the embedding, used a second time. Nothing is missing."
                )
            else:
                detail = tr("No output head is stored. An untied model needs one: see the findings.")
            self.banner.show_text("teal" if tie.tied else "orange", "⚭" if tie.tied else "−", title, detail)
        elif tie.head is not None:
            detail = tr("The embedding is stored under the head's name; an export puts it where loaders look for it.")
            self.banner.show_text("orange", "⚭", tr("Only the output head is stored"), detail)
        else:
            title = tr("No pair is known")
            detail = tr("The names fit no family, so the embedding and the output head can not be told.")
            self.banner.show_text(
                "grey", "○", title if snapshot else tr("No checkpoint is open"), detail if snapshot else ""
            )

    def _follows(self) -> str:
        """Say what the config claims, and what an export does."""
        snapshot, tr = self._snapshot, self.tr
        assert snapshot is not None
        tie, export = snapshot.plan.tie, snapshot.export
        if tie.flag is None:
            says = tr("No config says whether the two are tied.")
        else:
            text = tr("The model counts as tied ({}).") if tie.flag else tr("The model counts as untied ({}).")
            says = text.format(safe_text(tie.flag_from))
        kept = all(dropped.ref is not tie.head for dropped in export.dropped)
        if tie.state == "different" and tie.flag:
            does = tr("Loaders that believe it throw the trained head away. An export keeps both and says untied.")
        elif tie.state == "different":
            does = tr("Both are trained, and an export keeps both.")
        elif kept:
            does = tr("This export writes both.")
        else:
            does = tr("This export writes the embedding only, and says tied.")
        return f"{says} {does}"


def _short(value: float | None, digits: int = 4) -> str:
    return "–" if value is None else f"{value:.{digits}g}"
