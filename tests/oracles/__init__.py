"""Comparisons with programs that nobody here wrote: transformers, torchtune, torch, safetensors."""
