"""In which precision the fast mode computes: `fp32`, `bf16`, or what the machine is quick at.

Where it is bf16, layers multiply in bfloat16 under torch's autocast, in the policy's forward pass
and in the auxiliary losses. Parameters, gradients, optimizer, the last layer of policy and value,
and everything that is logged stay float32. Free of torch until it is used.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from reprl.errors import UserError

AUTO, FP32, BF16 = "auto", "fp32", "bf16"
PRECISIONS = (FP32, BF16, AUTO)
# instructions that multiply bfloat16: of x86 (AVX-512, AMX) and of ARM
INSTRUCTIONS = frozenset({"avx512_bf16", "amx_bf16", "bf16"})
CPU_FLAGS = Path("/proc/cpuinfo")
NEEDS_FAST = (
    "precision=bf16 needs mode=fast: mode=plain is SB3 bit for bit, and SB3 computes in fp32."
)


def cpu_has_bf16(file: Path = CPU_FLAGS) -> bool:
    """Whether this CPU has instructions for bfloat16; elsewhere they are emulated, and slow."""
    try:
        lines = file.read_text(errors="replace").splitlines()
    except OSError:
        return False
    flags = (line.partition(":") for line in lines)
    return any(
        key.strip() in ("flags", "Features") and INSTRUCTIONS & set(words.split())
        for key, _, words in flags
    )


def quick_at_bf16(device: str) -> bool:
    """Whether a device multiplies bfloat16 faster than float32."""
    if not device.startswith("cuda"):
        return device == "cpu" and cpu_has_bf16()
    import torch

    return torch.cuda.is_available() and torch.cuda.is_bf16_supported(including_emulation=False)


def settled(precision: str, *, mode: str, device: str) -> str:
    """fp32 or bf16; a plain run is always fp32, and bf16 for it is refused."""
    if precision == AUTO:
        return BF16 if mode == "fast" and quick_at_bf16(device) else FP32
    if precision == BF16 and mode != "fast":
        raise UserError(NEEDS_FAST)
    return precision


def computing_in(precision: str, device: str) -> AbstractContextManager[Any]:
    """A context whose layers compute in this precision; for fp32 none at all."""
    if precision == FP32:
        return nullcontext()
    import torch

    # No cache: a weight that is first cast without gradient would go on without one.
    return torch.autocast(device, dtype=torch.bfloat16, cache_enabled=False)
