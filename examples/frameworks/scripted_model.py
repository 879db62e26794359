"""A stand-in for a chat model: it says what a script says, so the examples run offline."""

from typing import Any

from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, AnyMessage


class ScriptedModel(GenericFakeChatModel):
    """Takes any tools, and calls those that its script names."""

    def bind_tools(self, tools: Any, **_options: Any) -> "ScriptedModel":
        return self


def says(*script: AIMessage | str) -> ScriptedModel:
    return ScriptedModel(messages=iter(script))


def calls(*tools: tuple[str, dict[str, Any]]) -> AIMessage:
    wanted = [{"name": name, "args": args, "id": f"call-{name}"} for name, args in tools]
    return AIMessage("", tool_calls=wanted)


def show(messages: list[AnyMessage]) -> None:
    for message in messages:
        asked = [call["name"] for call in getattr(message, "tool_calls", ())]
        print(f"{message.type:>6} | {message.name or '-'} | {message.content or asked}")
