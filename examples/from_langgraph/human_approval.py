"""A refund that a person has to approve. The process could end between question and answer."""

import sqlite3
from typing import Literal

from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, interrupt
from typing_extensions import TypedDict


class Refund(TypedDict, total=False):
    customer: str
    amount: int
    status: str
    note: str


def check(state: Refund) -> Refund:
    return {"status": "small" if state["amount"] < 50 else "needs approval"}


def approve(state: Refund) -> Command[Literal["pay", "refuse"]]:
    if state["status"] == "small":
        return Command(goto="pay")
    answer = interrupt({"question": f"Refund {state['amount']} to {state['customer']}?"})
    if not answer["approved"]:
        return Command(goto="refuse", update={"note": answer["reason"]})
    amount = answer.get("amount", state["amount"])
    return Command(goto="pay", update={"amount": amount})


def pay(state: Refund) -> Refund:
    return {"status": f"paid {state['amount']}"}


def refuse(_state: Refund) -> Refund:
    return {"status": "refused"}


def build(saver: SqliteSaver):
    builder = StateGraph(Refund)
    for node in (check, approve, pay, refuse):
        builder.add_node(node)
    builder.add_edge(START, "check")
    builder.add_edge("check", "approve")
    builder.add_edge("pay", END)
    builder.add_edge("refuse", END)
    return builder.compile(checkpointer=saver)


def thread(name: str) -> dict:
    return {"configurable": {"thread_id": name}}


def main() -> None:
    connection = sqlite3.connect(":memory:", check_same_thread=False)
    saver = SqliteSaver(connection)
    saver.setup()
    graph = build(saver)

    print(graph.invoke({"customer": "Ann", "amount": 20}, thread("ann")))
    for name, amount in (("bob", 80), ("cid", 900)):
        result = graph.invoke({"customer": name, "amount": amount}, thread(name))
        print(result["__interrupt__"][0].value, graph.get_state(thread(name)).next)

    graph = build(saver)  # as after a restart
    print(graph.invoke(Command(resume={"approved": True, "amount": 60}), thread("bob")))
    print(graph.invoke(Command(resume={"approved": False, "reason": "too much"}), thread("cid")))

    # What if Bob had been refused? Go back to the question and answer it again.
    asked = next(s for s in graph.get_state_history(thread("bob")) if s.next == ("approve",))
    again = graph.invoke(None, asked.config)
    print(again["__interrupt__"][0].value)
    print(graph.invoke(Command(resume={"approved": False, "reason": "changed"}), thread("bob")))
    connection.close()


if __name__ == "__main__":
    main()
