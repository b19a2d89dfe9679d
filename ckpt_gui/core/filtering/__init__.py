"""One grammar for choosing tensors, for the window's filter box and the command line."""

from ckpt_gui.core.filtering.lexer import replaced, value_of
from ckpt_gui.core.filtering.query import FIELDS, Field, FilterError, Query, Term, read_query
from ckpt_gui.core.filtering.subject import Subject, Subjects, subject, text_of

__all__ = [
    "FIELDS", "Field", "FilterError", "Query", "Subject", "Subjects", "Term", "read_query", "replaced", "subject",
    "text_of", "value_of",
]  # fmt: skip
