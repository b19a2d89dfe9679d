"""Messages about shapes: vocabularies, orders of values, other sizes of a model (kinds J, K, and C for the rest)."""

from __future__ import annotations

from ckpt_gui.core.explain.cause import CHECK, CONFIG, HF, Cause, found

_EMBED = r"(?:embed_tokens|lm_head|tok_embeddings|output|wte|embed_in|embed_out|word_embeddings|shared|tok_emb)"
_SHAPE = r"copying a param with shape torch\.Size\(\["
_MODEL = r"\]\) from checkpoint, the shape in current model is torch\.Size\(\["
_ROWS = (
    "The number of rows in the file is the one that counts: set `vocab_size` to it, and resize for the "
    "tokenizer afterwards. The export does the first."
)
SIZES: tuple[Cause, ...] = (
    Cause(
        "vocab-rows", "J", 5,
        "`{key}` has {have} vocabulary rows in the file, and the program's model {want}: tokens were added, or the "
        "rows are padded to a round number.",
        _ROWS,
        (CHECK, HF),
        found(
            (
                r"size mismatch for (?P<key>(?:[\w\-]{1,60}\.){0,8}"
                + _EMBED
                + r"(?:\.weight)?): "
                + _SHAPE
                + r"(?P<have>\d{1,9}), (?P<cols>\d{1,9})"
                + _MODEL
                + r"(?P<want>\d{1,9}), (?P=cols)\]"
            ),
        ),
        codes=("config-mismatch",),
    ),
    Cause(
        "vocab-rows-bare", "J", 4,
        "A tensor has {have} rows in the file and {want} in the program's model, and the same columns: vocabularies "
        "of different length, most likely.",
        _ROWS,
        (CHECK, HF),
        found(
            (
                r"size mismatch for weight: "
                + _SHAPE
                + r"(?P<have>\d{1,9}), (?P<cols>\d{1,9})"
                + _MODEL
                + r"(?P<want>\d{1,9}), (?P=cols)\]"
            ),
            (
                r"Trying to set a tensor of shape (?:torch\.Size\()?\[(?P<have>\d{1,9}), "
                r"(?P<cols>\d{1,9})\]\)? in [\"']weight[\"'] \(which has shape "
                r"(?:torch\.Size\()?\[(?P<want>\d{1,9}), (?P=cols)\]"
            ),
        ),
        codes=("config-mismatch",),
    ),
    Cause(
        "vocab-tokenizer", "J", 4,
        "The model has {have} vocabulary rows and the tokenizer {want} tokens.",
        _ROWS,
        (CHECK, HF),
        found(r"[Vv]ocab size mismatch \(model has (?P<have>\d{1,9}), but .{1,200}? has (?P<want>\d{1,9})"),
        codes=("config-mismatch",),
    ),
    Cause(
        "vocab-small", "J", 3,
        "A token's number is beyond the rows of the embedding: the tokenizer has more tokens than the model.",
        "Use the tokenizer that the model was trained with; `check` says how many rows there are.",
        (CHECK,),
        found(r"IndexError: index out of range in self", r"srcIndex < srcSelectDimSize", r"org_vocab_size"),
    ),
    Cause(
        "ignore-mismatch", "J", 1,
        "Shapes in the file differ from those of the config; where only the embedding and the head do, the "
        "vocabularies are of different length.",
        _ROWS,
        (CHECK, CONFIG),
        found(r"You set `?ignore_mismatched_sizes`? to `?False`?"),
        codes=("config-mismatch", "shape-mismatch"),
    ),
    Cause(
        "head-count", "K", 4,
        "A matrix of {size} numbers cannot be cut into heads as [{shape}]: the head counts or the head's width are "
        "not the model's, or q, k and v of different size are fused.",
        "Give the model's own config, or the head counts; they are never guessed.",
        (CONFIG, HF),
        found(r"shape '\[(?P<shape>[\d, \-]{1,80})\]' is invalid for input of size (?P<size>\d{1,20})"),
        codes=("heads-unknown", "config-mismatch"),
    ),
    Cause(
        "transposed", "K", 4,
        "`{key}` is [{a}, {b}] in the file and the other way round in the model: stored transposed, as GPT-2's "
        "Conv1D does.",
        "Export it to the layout that the program reads; such matrices are turned.",
        (CHECK, HF),
        found(
            (
                r"size mismatch for (?P<key>[\w.\-]{1,300}): "
                + _SHAPE
                + r"(?P<a>\d{1,9}), (?P<b>(?!(?P=a)\])\d{1,9})"
                + _MODEL
                + r"(?P=b), (?P=a)\]"
            ),
        ),
        codes=("shape-mismatch",),
    ),
    Cause(
        "other-size", "C", 2,
        "`{key}` is [{have}] in the file and [{want}] in the program's model: the config is that of another size or "
        "release, or the tensor is fused or cut otherwise.",
        "Give the config that belongs to the weights; `check` compares every shape with it.",
        (CHECK, CONFIG, HF),
        found(
            (
                r"size mismatch for (?P<key>[\w.\-]{1,300}): "
                + _SHAPE
                + r"(?P<have>[1-9][\d, ]{0,60})"
                + _MODEL
                + r"(?P<want>[1-9][\d, ]{0,60})\]"
            ),
            (
                r"Trying to set a tensor of shape (?:torch\.Size\()?\[(?P<have>[\d, ]{1,60})\]\)? in "
                r"[\"'](?P<key>[\w.\-]{1,300})[\"'] \(which has shape (?:torch\.Size\()?\[(?P<want>[\d, "
                r"]{1,60})\]"
            ),
        ),
        codes=("shape-mismatch", "config-mismatch"),
    ),
)  # fmt: skip
