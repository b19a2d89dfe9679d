"""Sizes in symbols: what a shape is called before the dims of a model are known.

A slot's shape, the parts of a fused tensor and the groups of its rows are written as `heads*head_dim`; the dims of a
model (`{"heads": 32, …}`) make numbers of them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

Symbol = str | int
EQUAL = "="  # the size of a part that is as long as the others
Dims = Mapping[str, int]


def size_of(symbol: Symbol, dims: Dims) -> int:
    """Return the value of a symbol, a product of symbols, or a sum of products.

    >>> size_of("heads*head_dim+2*kv_heads*head_dim", {"heads": 4, "kv_heads": 2, "head_dim": 8})
    64

    Raises:
        KeyError: A dim is not known.
    """
    if isinstance(symbol, int):
        return symbol
    return sum(
        math.prod(int(name) if name.isdigit() else dims[name] for name in product.split("*"))
        for product in symbol.split("+")
    )


def symbols_of(symbol: Symbol) -> tuple[str, ...]:
    """Return the dims that a symbol needs.

    >>> symbols_of("2*heads*head_dim")
    ('heads', 'head_dim')
    """
    if isinstance(symbol, int) or symbol == EQUAL:
        return ()
    names = (name for product in symbol.split("+") for name in product.split("*"))
    return tuple(dict.fromkeys(name for name in names if not name.isdigit()))
