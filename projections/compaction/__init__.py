"""Compaction: shorter histories with every original kept (DESIGN section 5)."""

from .compact import DEFAULT_KEEP, Compacted, compact
from .compressor import (
    DEFAULT_SUMMARY_TOKENS,
    LEAST_SUMMARY_TOKENS,
    Compressed,
    CompressionFailed,
    Compressor,
)
from .digest import DigestCompressor
from .model import (
    DEFAULT_INPUT_TOKENS,
    LEAST_INPUT_TOKENS,
    Model,
    ModelCompressor,
    ModelReply,
    ModelRequest,
)

__all__ = [
    "DEFAULT_INPUT_TOKENS",
    "DEFAULT_KEEP",
    "DEFAULT_SUMMARY_TOKENS",
    "LEAST_INPUT_TOKENS",
    "LEAST_SUMMARY_TOKENS",
    "Compacted",
    "Compressed",
    "CompressionFailed",
    "Compressor",
    "DigestCompressor",
    "Model",
    "ModelCompressor",
    "ModelReply",
    "ModelRequest",
    "compact",
]
