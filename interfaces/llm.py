"""Models from the `llm` package, for the model compressor; keys and models are its business.

Needs the extra: `pip install 'turnlog[llm]'`.
"""

from __future__ import annotations

from typing import Any

from turnlog.projections.compaction import CompressionFailed, Model, ModelReply, ModelRequest
from turnlog.store import NotFound, TokenUsage
from turnlog.store.arguments import text
from turnlog.store.errors import printable


def model(name: str | None = None) -> Model:
    """The model of this name or alias, the default one of `llm` if none is given.

    :raises NotFound: `llm` is not installed, or knows no such model.
    """
    try:
        import llm
    except ImportError:
        raise NotFound("model", name, "needs the llm package: pip install 'turnlog[llm]'") from None
    try:
        found = llm.get_model(None if name is None else text("name", name))
    except llm.UnknownModelError as error:
        raise NotFound("model", name, f"is not known to llm: {printable(str(error))}") from None

    def ask(request: ModelRequest) -> ModelReply:
        # Models name their bound differently, or have none; the prompt asks for it too.
        bound: dict[str, Any] = {"max_tokens": request.max_tokens} if "max_tokens" in found.Options.model_fields else {}
        try:
            response = found.prompt(request.prompt, system=request.system, stream=False, **bound)
            return ModelReply(response.text(), _usage(response.usage()))
        except llm.ModelError as error:
            raise CompressionFailed(f"{found.model_id}: {error}") from error

    return ask


def _usage(usage: Any) -> TokenUsage | None:
    if usage.input is None and usage.output is None:
        return None
    prompt, completion = usage.input or 0, usage.output or 0
    return TokenUsage(prompt_tokens=prompt, completion_tokens=completion, total_tokens=prompt + completion)
