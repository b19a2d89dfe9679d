"""Train the bundled sample checkpoint: a tiny Llama with tied embeddings, in Meta's layout.

The model is written in plain torch with Meta's module names and Meta's rotary convention (interleaved pairs). It
learns `resources/sample/text.txt` byte by byte, is wrapped by `torch.compile` and saved inside a training container,
the way such files really come about. The script needs torch and takes about a minute on one CPU core::

    python scripts/make_sample.py
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

SAMPLE = Path(__file__).resolve().parents[1] / "resources" / "sample"
CHECKPOINT = "tiny-llama-compiled.pt"
# n_heads * head_dim is not dim, and dim is a multiple of n_heads: transformers 5 refuses a Llama where it is not.
PARAMS: dict[str, Any] = {
    "dim": 48,
    "n_layers": 3,
    "n_heads": 6,
    "n_kv_heads": 2,
    "head_dim": 16,
    "vocab_size": 256,
    "multiple_of": 32,
    "ffn_dim_multiplier": 1.3,
    "hidden_dim": 192,
    "norm_eps": 1e-05,
    "rope_theta": 10000.0,
}
SENTENCE = "People think that the tide comes in like a door closing. It does not."
STEPS, BATCH, CONTEXT, PEAK_RATE, WARMUP = 600, 24, 128, 8e-3, 50


def ffn_size(params: dict[str, Any]) -> int:
    """Return the feed-forward size by Meta's formula, which params.json leaves to the reader."""
    hidden = int(2 * 4 * params["dim"] / 3)
    if params.get("ffn_dim_multiplier"):
        hidden = int(params["ffn_dim_multiplier"] * hidden)
    return int(params["multiple_of"] * math.ceil(hidden / params["multiple_of"]))


def rotate_pairs(x: Tensor, theta: float) -> Tensor:
    """Apply the rotary embedding to neighbouring pairs (2i, 2i+1) of `[batch, time, heads, head_dim]`."""
    time, size = x.shape[1], x.shape[3]
    frequencies = theta ** (-torch.arange(0, size, 2).float() / size)
    angles = torch.outer(torch.arange(time).float(), frequencies)[:, None, :]
    cos, sin = angles.cos(), angles.sin()
    even, odd = x[..., 0::2], x[..., 1::2]
    return torch.stack((even * cos - odd * sin, even * sin + odd * cos), dim=-1).flatten(-2)


class Attention(nn.Module):
    """Grouped-query attention with Meta's parameter names."""

    def __init__(self, params: dict[str, Any]) -> None:
        """Create the four projections."""
        super().__init__()
        dim, self.size, self.theta = params["dim"], params["head_dim"], params["rope_theta"]
        query, key = params["n_heads"] * self.size, params["n_kv_heads"] * self.size
        self.wq = nn.Linear(dim, query, bias=False)
        self.wk = nn.Linear(dim, key, bias=False)
        self.wv = nn.Linear(dim, key, bias=False)
        self.wo = nn.Linear(query, dim, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Mix the positions of `[batch, time, dim]`, each with those before it."""
        q, k, v = (w(x).unflatten(-1, (-1, self.size)) for w in (self.wq, self.wk, self.wv))
        q, k = rotate_pairs(q, self.theta), rotate_pairs(k, self.theta)
        q, k, v = (t.transpose(1, 2) for t in (q, k, v))
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        return self.wo(mixed.transpose(1, 2).flatten(-2))


class FeedForward(nn.Module):
    """Gated feed-forward network with Meta's parameter names."""

    def __init__(self, params: dict[str, Any]) -> None:
        """Create gate (w1), down (w2) and up (w3)."""
        super().__init__()
        dim, hidden = params["dim"], ffn_size(params)
        self.w1 = nn.Linear(dim, hidden, bias=False)
        self.w2 = nn.Linear(hidden, dim, bias=False)
        self.w3 = nn.Linear(dim, hidden, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Transform each position on its own."""
        return self.w2(functional.silu(self.w1(x)) * self.w3(x))


class Block(nn.Module):
    """One transformer layer."""

    def __init__(self, params: dict[str, Any]) -> None:
        """Create the two halves and their norms."""
        super().__init__()
        self.attention = Attention(params)
        self.feed_forward = FeedForward(params)
        self.attention_norm = nn.RMSNorm(params["dim"], params["norm_eps"])
        self.ffn_norm = nn.RMSNorm(params["dim"], params["norm_eps"])

    def forward(self, x: Tensor) -> Tensor:
        """Add attention, then the feed-forward network."""
        x = x + self.attention(self.attention_norm(x))
        return x + self.feed_forward(self.ffn_norm(x))


class TinyLlama(nn.Module):
    """A Llama over bytes whose output layer shares the embedding's storage."""

    def __init__(self, params: dict[str, Any]) -> None:
        """Create the layers with small random weights and tie the embeddings."""
        super().__init__()
        self.tok_embeddings = nn.Embedding(params["vocab_size"], params["dim"])
        self.layers = nn.ModuleList(Block(params) for _ in range(params["n_layers"]))
        self.norm = nn.RMSNorm(params["dim"], params["norm_eps"])
        self.output = nn.Linear(params["dim"], params["vocab_size"], bias=False)
        self.output.weight = self.tok_embeddings.weight
        for parameter in self.parameters():
            if parameter.ndim == 2:
                nn.init.normal_(parameter, std=0.05)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the logits of the byte that follows each position."""
        x = self.tok_embeddings(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.output(self.norm(x))


def next_byte_loss(model: nn.Module, windows: Tensor) -> Tensor:
    """Return the mean cross-entropy (nats) of each byte of `[batch, time]` given those before it."""
    logits = model(windows[:, :-1])
    return functional.cross_entropy(logits.flatten(0, 1), windows[:, 1:].flatten())


def rate_at(step: int) -> float:
    """Return the share of the peak learning rate: a short warm-up, then a cosine down to zero."""
    return min(1.0, (step + 1) / WARMUP) * 0.5 * (1 + math.cos(math.pi * step / STEPS))


def train(model: TinyLlama, text: bytes) -> tuple[torch.optim.Optimizer, float]:
    """Train on random windows of the text.

    Args:
        model: The model, changed in place.
        text: What to learn.

    Returns:
        The optimizer and the mean loss of the last fifty steps.
    """
    data = torch.tensor(list(text))
    optimizer = torch.optim.AdamW(model.parameters(), lr=PEAK_RATE, betas=(0.9, 0.99), weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, rate_at)
    losses: list[float] = []
    for step in range(STEPS):
        starts = torch.randint(len(data) - CONTEXT, (BATCH,))
        loss = next_byte_loss(model, data[starts[:, None] + torch.arange(CONTEXT + 1)])
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
        if (step + 1) % 100 == 0:
            print(f"step {step + 1}: loss {sum(losses[-50:]) / 50:.4f}", flush=True)
    return optimizer, sum(losses[-50:]) / 50


def save_checkpoint(model: TinyLlama, optimizer: torch.optim.Optimizer, loss: float, text_size: int) -> None:
    """Write the compiled model and its optimizer in bfloat16, nested in a training container."""
    model.bfloat16()
    optimizer.load_state_dict(optimizer.state_dict())  # casts the moments to the type of the weights
    compiled = torch.compile(model, backend="eager")
    container = {
        "model": compiled.state_dict(),
        "optimizer": optimizer.state_dict(),
        "step": STEPS,
        "epoch": STEPS * BATCH * CONTEXT // text_size,
        "loss": loss,
    }
    torch.save(container, SAMPLE / CHECKPOINT)


def halves_to_pairs(weight: Tensor, heads: int) -> Tensor:
    """Reorder rows from halves (i, i + head_dim/2) to neighbouring pairs (2i, 2i+1) in every head."""
    return weight.unflatten(0, (heads, 2, -1)).transpose(1, 2).reshape(weight.shape)


def saved_loss(wrong_rope: bool) -> float:
    """Return the loss of the fixed sentence in float32 from the saved bfloat16 weights.

    Args:
        wrong_rope: Take the rows of q and k for rows ordered by halves, which they are not. This gives the loss of a
            model that rotates halves (Hugging Face) and is handed the rows as they are.
    """
    container = torch.load(SAMPLE / CHECKPOINT, weights_only=True)
    weights = {name.removeprefix("_orig_mod."): value.float() for name, value in container["model"].items()}
    if wrong_rope:
        for name in weights:
            if name.endswith((".wq.weight", ".wk.weight")):
                heads = PARAMS["n_heads" if name.endswith(".wq.weight") else "n_kv_heads"]
                weights[name] = halves_to_pairs(weights[name], heads)
    model = TinyLlama(PARAMS)
    model.load_state_dict(weights)
    with torch.no_grad():
        return next_byte_loss(model, torch.tensor([list(SENTENCE.encode())])).item()


def write_json(name: str, content: dict[str, Any]) -> None:
    """Write one JSON file into the sample folder."""
    (SAMPLE / name).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8", newline="\n")


def main() -> None:
    """Train, save and measure the sample."""
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    torch.manual_seed(7)
    text = (SAMPLE / "text.txt").read_text(encoding="utf-8").encode()  # newlines are "\n" on every system
    if SENTENCE.encode() not in text or ffn_size(PARAMS) != PARAMS["hidden_dim"]:
        raise SystemExit("the sentence or the feed-forward size does not match")
    model = TinyLlama(PARAMS)
    optimizer, loss = train(model, text)
    save_checkpoint(model, optimizer, loss, len(text))
    write_json("params.json", PARAMS)
    right, wrong = saved_loss(wrong_rope=False), saved_loss(wrong_rope=True)
    write_json("expected.json", {"sentence": SENTENCE, "loss": right, "loss_wrong_rope": wrong, "tolerance": 1e-4})
    size = (SAMPLE / CHECKPOINT).stat().st_size
    print(f"{CHECKPOINT}: {size} bytes, sentence loss {right:.6f}, with the wrong row order {wrong:.6f}")


if __name__ == "__main__":
    main()
