"""Messages about tied embeddings and the output head (kind B).

Texts of torch 2.13, safetensors 0.8, transformers, vLLM, llama.cpp, mlx-lm and OpenRLHF.
"""

from __future__ import annotations

import re

from ckpt_gui.core.explain.cause import CHECK, HF, Cause, found, to

_HEAD = re.compile(r"(?:^|\.)(?:output|lm_head|embed_out)\.weight$")
_TIED = "`check` compares the two: an equal copy is dropped by the export, a head that was trained apart is kept."
_HEAD_STEPS = (CHECK, to("hf", "--tie", "drop"))
_TIE_CODES = ("tied-redundant", "tied-conflict", "tied-renamed")

HEADS: tuple[Cause, ...] = (
    Cause(
        "head-unexpected", "B", 4,
        "The file holds an output head `{key}` and the program expects none: it ties the head to the embedding. Most "
        "often the two are equal.",
        _TIED,
        _HEAD_STEPS, unexpected=_HEAD, few=True, codes=_TIE_CODES,
    ),
    Cause(
        "head-missing", "B", 4,
        "The program wants a head `{key}` that is not stored: the model is tied and the file keeps the embedding "
        "only, or the head was lost.",
        "If the config says tied, export with a copy of the embedding as head; otherwise look for the file that "
        "holds it.",
        (CHECK, to("hf", "--tie", "copy")), missing=_HEAD, few=True, codes=("missing-tensor",),
    ),
    Cause(
        "head-keyerror", "B", 4,
        "The program knows no `{key}`: either the file holds a copy of the embedding as head that a tied model has "
        "no place for, or a head is needed and absent.",
        _TIED,
        _HEAD_STEPS,
        found(
            r"KeyError: [\"'](?P<key>(?:[\w.]{1,100}\.)?(?:lm_head|output)\.weight)[\"']",
            r"Can ?not map tensor [\"'](?P<key>(?:lm_head|output)\.weight)[\"']",
            r"parameters? not in model: ?(?P<key>(?:[\w]{1,40}\.){0,4}lm_head\.weight)",
            r"does not contain tensor `?(?P<key>lm_head\.weight)",
            r"mismatch keys \{[\"'](?P<key>[\w.]{0,100}lm_head\.weight)[\"']",
            r"missing tensor [\"'](?P<key>output\.weight)[\"']",
        ),
        codes=_TIE_CODES,
    ),
    Cause(
        "shared", "B", 4,
        "Two names stand for one tensor in memory, most often the tied embedding and head, or one is a view of "
        "another; safetensors stores no sharing.",
        "Open the torch file here and export it: one of a tied pair is kept, and views are written whole.",
        (CHECK, HF),
        found(
            r"Some tensors share memory(?!.{0,400}?\[\{(?:[\"'][\w.\-]{1,200}[\"'],? ?){4})",
            r"weights trying to be saved contained shared tensors",
        ),
        codes=_TIE_CODES,
    ),
    Cause(
        "tied-conflict", "B", 4,
        "The config says tied, and the file holds a head that differs from the embedding. A loader that follows the "
        "flag discards one of them.",
        "Keep both and set `tie_word_embeddings` to false; the export does so.",
        (CHECK, to("hf", "--tie", "keep")),
        found(r"both are present in the checkpoints with different values"),
        codes=("tied-conflict",),
    ),
)  # fmt: skip
