"""Tests; the folders mirror ckpt_gui/."""
