"""A chat that remembers its user across conversations, in a store that all threads share."""

from dataclasses import dataclass

from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.runtime import Runtime
from langgraph.store.memory import InMemoryStore

SUBJECTS = ("food", "music", "city")


def embed(texts: list[str]) -> list[list[float]]:
    """A stand-in for an embedding model: one dimension for each subject."""
    words = {"food": "eat soup bread food", "music": "play piano song", "city": "live lisbon city"}
    vectors = []
    for text in texts:
        told = text.lower().strip(".?").split()
        vectors.append([sum(word in words[s].split() for word in told) + 0.01 for s in SUBJECTS])
    return vectors


@dataclass
class Context:
    user: str


def remember(state: MessagesState, runtime: Runtime[Context]) -> None:
    told = state["messages"][-1].content
    if told.startswith("I "):
        key = f"fact-{len(runtime.store.search((runtime.context.user,)))}"
        runtime.store.put((runtime.context.user,), key, {"text": told})


def answer(state: MessagesState, runtime: Runtime[Context]) -> dict:
    asked = state["messages"][-1].content
    if not asked.endswith("?"):
        text = "Noted."
    else:
        found = runtime.store.search((runtime.context.user,), query=asked, limit=1)
        text = f"You said: {found[0].value['text']}" if found else "I do not know you yet."
    return {"messages": [AIMessage(text, id=f"answer-{len(state['messages'])}")]}


def main() -> None:
    builder = StateGraph(MessagesState, context_schema=Context)
    builder.add_node(remember)
    builder.add_node(answer)
    builder.add_edge(START, "remember")
    builder.add_edge("remember", "answer")
    store = InMemoryStore(index={"embed": embed, "dims": len(SUBJECTS), "fields": ["text"]})
    graph = builder.compile(checkpointer=InMemorySaver(), store=store)

    def say(user: str, thread: str, text: str) -> None:
        config = {"configurable": {"thread_id": thread}}
        result = graph.invoke(
            {"messages": [HumanMessage(text, id=f"{thread}-{text}")]},
            config,
            context=Context(user=user),
        )
        print(f"{user} in {thread}: {text} -> {result['messages'][-1].content}")

    say("ann", "monday", "I eat soup.")
    say("ann", "monday", "I live in Lisbon.")
    say("ann", "monday", "I play the piano.")
    say("ann", "tuesday", "Which city do I live in?")
    say("ann", "tuesday", "What food do I like?")
    say("bob", "tuesday-bob", "What food do I like?")
    history = graph.get_state({"configurable": {"thread_id": "tuesday"}}).values["messages"]
    print(len(history), "messages on tuesday;", store.list_namespaces(), "remembered")
    print([item.value["text"] for item in store.search(("ann",), filter={"text": "I eat soup."})])


if __name__ == "__main__":
    main()
