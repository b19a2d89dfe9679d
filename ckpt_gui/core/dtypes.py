"""The element types of tensors: one table, one short name each (`bf16`, `fp32`, …).

Sources of the names: safetensors 0.8 (`tensor.rs`), torch 2.13 (`torch.<name>` and `torch.<Name>Storage`).
"""

from __future__ import annotations

from ckpt_gui.dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DType:
    """An element type.

    Attributes:
        name: The short name used in labels, flags and JSON.
        bits: Bits per element.
        safetensors: Name in a safetensors header; None where the format has no such type.
        torch: Attribute of the `torch` module; None where torch has no such type.
        storage: Name of torch's legacy storage class, used in pickles; None where there is none.
        numpy: numpy's name for the same bit patterns, or for an unsigned integer of the same size.
        kind: `float`, `int`, `bool` or `complex`.
    """

    name: str
    bits: int
    safetensors: str | None
    torch: str | None
    storage: str | None
    numpy: str
    kind: str

    @property
    def itemsize(self) -> int:
        """Bytes per element; 0 for types smaller than a byte."""
        return self.bits // 8


DTYPES: tuple[DType, ...] = (
    DType("bf16", 16, "BF16", "bfloat16", "BFloat16Storage", "uint16", "float"),
    DType("fp16", 16, "F16", "float16", "HalfStorage", "float16", "float"),
    DType("fp32", 32, "F32", "float32", "FloatStorage", "float32", "float"),
    DType("fp64", 64, "F64", "float64", "DoubleStorage", "float64", "float"),
    DType("fp8_e4m3", 8, "F8_E4M3", "float8_e4m3fn", None, "uint8", "float"),
    DType("fp8_e5m2", 8, "F8_E5M2", "float8_e5m2", None, "uint8", "float"),
    DType("fp8_e8m0", 8, "F8_E8M0", "float8_e8m0fnu", None, "uint8", "float"),
    DType("fp8_e4m3fnuz", 8, "F8_E4M3FNUZ", "float8_e4m3fnuz", None, "uint8", "float"),
    DType("fp8_e5m2fnuz", 8, "F8_E5M2FNUZ", "float8_e5m2fnuz", None, "uint8", "float"),
    DType("fp6_e2m3", 6, "F6_E2M3", None, None, "uint8", "float"),
    DType("fp6_e3m2", 6, "F6_E3M2", None, None, "uint8", "float"),
    DType("fp4", 4, "F4", "float4_e2m1fn_x2", None, "uint8", "float"),
    DType("i8", 8, "I8", "int8", "CharStorage", "int8", "int"),
    DType("u8", 8, "U8", "uint8", "ByteStorage", "uint8", "int"),
    DType("i16", 16, "I16", "int16", "ShortStorage", "int16", "int"),
    DType("u16", 16, "U16", "uint16", None, "uint16", "int"),
    DType("i32", 32, "I32", "int32", "IntStorage", "int32", "int"),
    DType("u32", 32, "U32", "uint32", None, "uint32", "int"),
    DType("i64", 64, "I64", "int64", "LongStorage", "int64", "int"),
    DType("u64", 64, "U64", "uint64", None, "uint64", "int"),
    DType("bool", 8, "BOOL", "bool", "BoolStorage", "bool", "bool"),
    DType("c64", 64, "C64", "complex64", "ComplexFloatStorage", "complex64", "complex"),
    DType("c128", 128, None, "complex128", "ComplexDoubleStorage", "complex128", "complex"),
)

BY_NAME: dict[str, DType] = {d.name: d for d in DTYPES}
BY_SAFETENSORS: dict[str, DType] = {d.safetensors: d for d in DTYPES if d.safetensors}
BY_TORCH: dict[str, DType] = {d.torch: d for d in DTYPES if d.torch}
BY_STORAGE: dict[str, DType] = {d.storage: d for d in DTYPES if d.storage}
CASTABLE: tuple[str, ...] = ("bf16", "fp16", "fp32", "fp64")


def num_bytes(dtype: str, num_elements: int) -> int:
    """Return the bytes that `num_elements` elements take, rounded up to whole bytes.

    >>> num_bytes("bf16", 3), num_bytes("fp4", 3)
    (6, 2)
    """
    return (BY_NAME[dtype].bits * num_elements + 7) // 8
