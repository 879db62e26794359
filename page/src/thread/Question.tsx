// A question that a node asked with `interrupt`, and a place for its answer.

import { useSignal } from "@preact/signals";
import { isObject, type Interrupt, type Json, type LogEntry, type Task } from "../api/types";
import { Icon } from "../ui/icons";
import { Button } from "../ui/parts";
import { opened, Text, ValueTree } from "../ui/Value";
import type { Session } from "./session";

interface Props {
  session: Session;
  task: Task;
  interrupt: Interrupt;
  entry: LogEntry;
  newest: boolean;
}

export function Question({ session, task, interrupt, entry, newest }: Props) {
  const open = useSignal<ReadonlyMap<string, boolean>>(opened().value);
  const answer = useSignal("");
  const { value } = interrupt;
  const send = (given: Json) =>
    void session.start(`Answer to ${task.name}`, {
      resume: { [interrupt.id]: given },
      ...(newest ? {} : { checkpoint_id: entry.checkpoint_id }),
    });
  return (
    <div class="note note-waiting" role="group" aria-label={`${task.name} asks`}>
      <p class="note-title">
        <Icon name="question" /> <strong>{task.name}</strong> asks
      </p>
      <div class="question">
        {typeof value === "string" ? (
          <Text text={value} />
        ) : isObject(value) || Array.isArray(value) ? (
          <ValueTree value={value} context={{ open }} />
        ) : (
          JSON.stringify(value)
        )}
      </div>
      {session.canWrite.value && (
        <form
          class="answer"
          onSubmit={(event) => {
            event.preventDefault();
            send(read(answer.value));
          }}
        >
          <textarea
            rows={1}
            placeholder="Answer: text or JSON"
            aria-label={`Answer to ${task.name}`}
            value={answer.value}
            onInput={(event) => {
              answer.value = event.currentTarget.value;
            }}
            onKeyDown={(event) => {
              if (event.key === "Enter" && !event.shiftKey) {
                event.preventDefault();
                event.currentTarget.form!.requestSubmit();
              }
            }}
          />
          <Button kind="primary" type="submit" disabled={session.running.value || !answer.value}>
            Answer
          </Button>
        </form>
      )}
      {session.canWrite.value && answer.value && (
        <p class="hint">Sent as {typeof read(answer.value) === "string" ? "text" : "JSON"}</p>
      )}
    </div>
  );
}

/** JSON if it is JSON, otherwise the text itself. */
export function read(text: string): Json {
  try {
    return JSON.parse(text) as Json;
  } catch {
    return text;
  }
}
