"""Wires: the forms of providers' requests, and what of them stays cached (DESIGN section 6)."""

from .adapt import Adapted, adapt
from .anthropic import Anthropic
from .groups import Adjustment
from .openai import OpenAI
from .stable_prefix import StablePrefix, request_tokens, stable_prefix
from .wire import Wire

WIRES: dict[str, Wire] = {wire.name: wire for wire in (OpenAI(), Anthropic())}

__all__ = [
    "WIRES",
    "Adapted",
    "Adjustment",
    "Anthropic",
    "OpenAI",
    "StablePrefix",
    "Wire",
    "adapt",
    "request_tokens",
    "stable_prefix",
]
