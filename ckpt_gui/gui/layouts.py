"""The layouts that the window offers, and their names for people; the command line writes the rarer ones too."""

from __future__ import annotations

from ckpt_gui.core.families.layouts import title_of

_OFFERED = ("hf", "meta", "torchtune", "litgpt", "gpt-fast", "torchtitan", "nanogpt")
LAYOUTS = {name: title_of(name) for name in _OFFERED} | {"same": "As it is"}
