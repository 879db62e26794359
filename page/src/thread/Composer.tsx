// The line at the bottom: a new input for the graph, and what it says while it runs.

import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { isObject, type Json, type JsonObject } from "../api/types";
import { counted } from "../model/format";
import { message } from "../model/load";
import type { Run } from "../model/run";
import { Button } from "../ui/parts";
import type { Session } from "./session";

export function Composer({ session }: { session: Session }) {
  const given = session.drawing.value?.input_schema;
  const schema = isObject(given) ? given : null;
  const wanted = useSignal<boolean | null>(null);
  const asJson = wanted.value ?? !takesMessages(schema);
  const text = useSignal("");
  const error = useSignal<string | null>(null);
  const send = () => {
    if (!text.value.trim()) return;
    let input: Json;
    try {
      input = asJson
        ? (JSON.parse(text.value) as Json)
        : { messages: [{ role: "user", content: text.value }] };
    } catch (problem) {
      error.value = `This is not JSON: ${message(problem)}`;
      return;
    }
    text.value = "";
    error.value = null;
    void session.start("New input", { input });
  };
  return (
    <div class="composer">
      {session.run.value && <Progress run={session.run.value} session={session} />}
      <form
        class="composer-form"
        onSubmit={(event) => {
          event.preventDefault();
          send();
        }}
      >
        <textarea
          rows={text.value.includes("\n") ? 4 : 1}
          aria-label="New input"
          placeholder={asJson ? `New input as JSON: ${example(schema)}` : "New message"}
          disabled={!session.known.value}
          value={text.value}
          spellcheck={!asJson}
          class={asJson ? "is-code" : ""}
          onInput={(event) => {
            text.value = event.currentTarget.value;
            error.value = null;
          }}
          onKeyDown={(event) => {
            if (event.key !== "Enter" || event.shiftKey) return;
            event.preventDefault();
            send();
          }}
        />
        {takesMessages(schema) && (
          <button
            type="button"
            class="segment"
            aria-pressed={asJson}
            onClick={() => {
              wanted.value = !asJson;
            }}
          >
            JSON
          </button>
        )}
        {session.running.value ? (
          <Button icon="stop" onClick={() => void session.run.value?.stop(session.thread.id)}>
            Stop
          </Button>
        ) : (
          <Button kind="primary" icon="send" type="submit" disabled={!text.value.trim()}>
            Run
          </Button>
        )}
      </form>
      {error.value && (
        <p class="field-error" role="alert">
          {error.value}
        </p>
      )}
    </div>
  );
}

const outcomes = {
  running: "Running",
  done: "Finished",
  interrupted: "Waits for an answer",
  failed: "Failed",
  stopped: "Stopped",
} as const;

function Progress({ run, session }: { run: Run; session: Session }) {
  const box = useRef<HTMLDivElement>(null);
  const said = run.said.value;
  const length = said.reduce((sum, each) => sum + each.text.length, 0);
  useEffect(() => {
    const element = box.current;
    if (element) element.scrollTop = element.scrollHeight;
  }, [length]);
  const outcome = run.outcome.value;
  return (
    <div class={`progress progress-${outcome}`} role="status" data-outcome={outcome}>
      <p class="progress-head">
        <span class="progress-title">{run.title}</span>
        <span class="progress-state">{outcomes[outcome]}</span>
        <span class="progress-steps">{counted(run.steps.value).slice(-6).join(" → ")}</span>
        {outcome !== "running" && (
          <Button
            kind="ghost"
            icon="close"
            label="Close the output"
            onClick={() => {
              session.run.value = null;
            }}
          />
        )}
      </p>
      {run.error.value && <pre class="note-text">{run.error.value}</pre>}
      {said.length > 0 && (
        <div class="progress-said" ref={box}>
          {said.map((each, index) => (
            <p key={index}>
              {each.node && <span class="node-name">{each.node}</span>} {each.text}
            </p>
          ))}
        </div>
      )}
    </div>
  );
}

function properties(schema: JsonObject | null): JsonObject {
  const found = schema?.["properties"];
  return isObject(found) ? found : {};
}

const takesMessages = (schema: JsonObject | null) => "messages" in properties(schema);

function example(schema: JsonObject | null): string {
  const keys = Object.keys(properties(schema)).slice(0, 4);
  return `{${keys.map((key) => `"${key}": …`).join(", ") || '"key": …'}}`;
}
