"""Addresses: what is secret in them goes no further than the request."""

from __future__ import annotations

import pytest

from ckpt_gui.core.errors import CheckpointError
from ckpt_gui.core.remote import address
from ckpt_gui.core.remote.address import admit, join, real_address, redacted, split, without_secrets

SIGNED = "https://bucket.host/m/a.safetensors?X-Amz-Signature=5f1c&X-Amz-Credential=AKIA&versionId=7"


@pytest.mark.parametrize(
    ("text", "public"),
    [
        ("/models/a.pt", "/models/a.pt"),
        (r"C:\models\a.pt", r"C:\models\a.pt"),
        ("https://host/a.pt", "https://host/a.pt"),
        ("https://me:word@host:8080/a.pt", "https://host:8080/a.pt"),
        ("https://hf_token@host/a.pt", "https://host/a.pt"),
        (SIGNED, "https://bucket.host/m/a.safetensors?X-Amz-Signature=…&X-Amz-Credential=…&versionId=7"),
        ("https://host/a.pt?sv=2024&sig=abc%3D", "https://host/a.pt?sv=…&sig=…"),
        ("https://host/a.pt?abcdefsecret", "https://host/a.pt?…"),
        ("https://host/a.pt?download=true", "https://host/a.pt?download=true"),
        ("https://host/a.pt#access_token=abc", "https://host/a.pt"),
        ("https://[::1]:80/a.pt", "https://[::1]:80/a.pt"),
        ("ssh://me:word@host/m", "ssh://me@host/m"),
        ("s3://key:word@bucket/m", "s3://bucket/m"),
        ("hf://org/model@rev/a.safetensors", "hf://org/model@rev/a.safetensors"),
        ("https://huggingface.co/org/model", "hf://org/model"),
        ("https://huggingface.co/org/model/tree/main", "hf://org/model"),
        ("https://huggingface.co/org/model/blob/v2/a.gguf", "hf://org/model@v2/a.gguf"),
        ("https://huggingface.co/datasets/org/x", "https://huggingface.co/datasets/org/x"),
    ],
)
def test_what_stands_for_an_address(text: str, public: str) -> None:
    assert admit(text) == public


def test_a_file_address_is_a_path() -> None:
    assert admit("file:///models/a%20b.pt") == "/models/a b.pt"


def test_the_secret_is_kept_for_the_request_and_for_what_lies_beside() -> None:
    public = admit(SIGNED)
    assert real_address(public) == SIGNED
    admit("https://me:word@other/m/model.safetensors.index.json")
    assert real_address("https://other/m/config.json") == "https://me:word@other/m/config.json"
    assert real_address("https://other/elsewhere/config.json") == "https://other/elsewhere/config.json"
    assert real_address("https://third/m/config.json") == "https://third/m/config.json"


def test_an_address_that_can_not_be_read() -> None:
    with pytest.raises(CheckpointError, match="address"):
        redacted("https://host:port/a.pt")


def test_a_log_holds_no_secrets() -> None:
    log = f"arguments: ['{SIGNED}', 's3://me:word@box/m', 'https://h:99999999/x?k=secret']"
    clean = without_secrets(log)
    assert "5f1c" not in clean
    assert "AKIA" not in clean
    assert "word" not in clean
    assert "secret" not in clean
    assert clean.startswith("arguments: ['https://bucket.host/m/a.safetensors?")


def test_taking_apart_and_putting_together() -> None:
    assert split("https://host/m/a%20b.pt?x=1") == ("https://host/m", "a b.pt")
    assert join("https://host/m", "a b.pt") == "https://host/m/a%20b.pt"
    assert join("s3://box/m/", "a b.pt") == "s3://box/m/a b.pt"
    assert split("s3://box/a.pt") == ("s3://box", "a.pt")
    assert split("hf://org/model") == ("hf://org", "model")


def test_one_signature_replaces_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(address, "_SECRETS", {})
    old, new = (f"https://host/a.pt?sig={word}" for word in ("old", "new"))
    assert admit(old) == admit(new)
    assert real_address(admit(new)) == new
