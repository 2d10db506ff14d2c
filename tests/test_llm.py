"""Models of the `llm` package: real plugins that answer locally, through the package's own registry."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import llm as package
import pytest
from llm.plugins import pm
from views import reply, user

from turnlog import llm
from turnlog.formats import log as events_format
from turnlog.projections import history
from turnlog.projections.compaction import CompressionFailed, ModelCompressor, ModelReply, ModelRequest, compact
from turnlog.store import NotFound, Store, TokenUsage

REQUEST = ModelRequest("You keep the summary.", "Summary so far: none", 77)
TALK = [user("My order is AB-123."), reply("It failed: E404."), user("so?")]


class Bounded(package.Model):
    """Answers with the bound that it was given, and counts no tokens."""

    model_id = "bounded"

    class Options(package.Options):
        max_tokens: int | None = None

    def execute(self, prompt: Any, stream: bool, response: Any, conversation: Any) -> Iterator[str]:
        yield f"at most {prompt.options.max_tokens}"
        yield f", stream {stream}"


class Failing(package.Model):
    """Fails half-way through its answer, as models do when their provider gives up."""

    model_id = "failing"

    def execute(self, prompt: Any, stream: bool, response: Any, conversation: Any) -> Iterator[str]:
        yield "so f"
        raise package.ModelError("the provider gave up")


class Counting(package.Model):
    """Answers with a text and counts its tokens, which may be known in part only."""

    def __init__(self, model_id: str, **usage: int) -> None:
        self.model_id = model_id
        self.usage = usage

    def execute(self, prompt: Any, stream: bool, response: Any, conversation: Any) -> Iterator[str]:
        response.set_usage(**self.usage)
        yield "counted"


class Plugin:
    """A plugin as people install them."""

    @package.hookimpl
    def register_models(self, register: Any) -> None:
        register(Bounded(), aliases=("b",))
        register(Failing())
        register(Counting("both", input=9, output=2))
        register(Counting("input", input=9))
        register(Counting("output", output=2))


@pytest.fixture(autouse=True)
def registered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The plugin is there beside those that are installed; keys, aliases and defaults are those of an empty folder."""
    monkeypatch.setenv("LLM_USER_PATH", str(tmp_path))
    monkeypatch.delenv("LLM_ECHO_NEEDS_KEY_KEY", raising=False)
    plugin = Plugin()
    pm.register(plugin)
    yield
    pm.unregister(plugin)


def asked(name: str | None) -> ModelReply:
    """What a model replies to the request."""
    answer = llm.model(name)(REQUEST)
    assert isinstance(answer, ModelReply)
    return answer


def test_an_installed_model_is_asked() -> None:
    """A model of an installed plugin gets the prompt and the instructions, and its tokens are counted."""
    answer = asked("echo")
    told = json.loads(answer.text)
    assert (told["prompt"], told["system"], told["stream"]) == (REQUEST.prompt, REQUEST.system, False)
    assert answer.usage is not None
    assert answer.usage.prompt_tokens == len((REQUEST.prompt + " " + REQUEST.system).split())
    assert answer.usage.completion_tokens == len(answer.text.split())
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens


@pytest.mark.parametrize("name", ["bounded", "b"])
def test_a_model_that_has_a_bound_is_given_it(name: str) -> None:
    """A model is known by name or alias, and one with an option `max_tokens` is given the request's."""
    assert asked(name).text == "at most 77, stream False"


def test_an_alias_and_a_default_of_ones_own() -> None:
    """Aliases and the default model are the package's business: what is set there is found."""
    package.set_alias("mine", "bounded")  # type: ignore[no-untyped-call]
    package.set_default_model("both")  # type: ignore[no-untyped-call]
    assert asked("mine").text == "at most 77, stream False"
    assert asked(None).text == "counted"


@pytest.mark.parametrize(
    ("name", "usage"),
    [
        ("both", TokenUsage(prompt_tokens=9, completion_tokens=2, total_tokens=11)),
        ("input", TokenUsage(prompt_tokens=9, completion_tokens=0, total_tokens=9)),
        ("output", TokenUsage(prompt_tokens=0, completion_tokens=2, total_tokens=2)),
        ("bounded", None),
    ],
)
def test_tokens(name: str, usage: TokenUsage | None) -> None:
    """The tokens that a model counts are its reply's usage; one that counts none has none."""
    assert asked(name).usage == usage


def test_a_model_that_is_not_known() -> None:
    """A model that no plugin registers is not found, by the name it was asked for."""
    with pytest.raises(NotFound) as refused:
        llm.model("no-such-model")
    assert (refused.value.kind, refused.value.value) == ("model", "no-such-model")
    assert "is not known to llm" in str(refused.value)


@pytest.mark.parametrize("name", ["echo", None])
def test_without_the_package(monkeypatch: pytest.MonkeyPatch, name: str | None) -> None:
    """Without the package there is no model, and the refusal says what to install."""
    monkeypatch.setitem(sys.modules, "llm", None)
    with pytest.raises(NotFound) as refused:
        llm.model(name)
    assert (refused.value.kind, refused.value.value) == ("model", name)
    assert "pip install 'turnlog[llm]'" in str(refused.value)


# Compaction with such a model.


@pytest.fixture
def store() -> Iterator[Store]:
    with Store(":memory:") as store:
        store.append("c", TALK)
        yield store


def test_a_conversation_is_compacted(store: Store) -> None:
    """A model of an installed plugin compacts a conversation; the event has its name and its tokens."""
    compressor = ModelCompressor(llm.model("echo"), name="model:echo", max_tokens=2000)
    compacted = compact(store, "c", "chat", compressor, 1)
    assert compacted is not None
    told = json.loads(compacted.text)
    assert "user: My order is AB-123.\nassistant: It failed: E404." in told["prompt"]
    assert [message.version for message in history(store, "c")] == [4, 3]
    written = store.event("c", 4).body
    tokens = len(told["prompt"].split()) + len(told["system"].split()) + len(compacted.text.split())
    assert (written["method"], written["max_tokens"]) == ("model:echo", 2000)
    assert written["usage"]["total_tokens"] == tokens


def test_every_chunk_is_asked_and_counted(store: Store) -> None:
    """A transcript of several chunks asks the model for each, and their tokens are added up."""
    store.append("c", [user("x" * 2000), user("so?")])
    compressor = ModelCompressor(llm.model("both"), max_input_tokens=100)
    assert compact(store, "c", "chat", compressor, 1) is not None
    usage = store.event("c", 6).body["usage"]
    assert usage == {"prompt_tokens": 18, "completion_tokens": 4, "total_tokens": 22}


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("failing", "failing: the provider gave up"),
        ("echo-needs-key", "echo-needs-key: No key found"),
        ("echo", "the text has "),
    ],
)
def test_a_failure_appends_nothing(store: Store, name: str, why: str) -> None:
    """A model that fails, that has no key or that says too much leaves the log as it is, and says so."""
    before = list(events_format.write(store, "c"))
    with pytest.raises(CompressionFailed) as failed:
        compact(store, "c", "chat", ModelCompressor(llm.model(name), max_tokens=30), 1)
    assert failed.value.why.startswith(why)
    assert list(events_format.write(store, "c")) == before


def test_keys_are_the_packages_business(monkeypatch: pytest.MonkeyPatch) -> None:
    """A model that needs a key gets it from the package."""
    monkeypatch.setenv("LLM_ECHO_NEEDS_KEY_KEY", "a key")
    assert json.loads(asked("echo-needs-key").text)["key"] == "a key"
