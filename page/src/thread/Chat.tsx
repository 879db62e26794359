// Messages as the conversation they are.

import { signal, useSignal } from "@preact/signals";
import { isObject, type Change, type Json, type JsonObject, type Path } from "../api/types";
import { count, bytes } from "../model/format";
import { useLoad } from "../model/load";
import { type Chat, chats, kindOf, leftOut, messageText, toolCalls } from "../model/messages";
import { Icon } from "../ui/icons";
import { Empty, Failure, Skeleton } from "../ui/parts";
import { opened, Text, ValueTree } from "../ui/Value";

const portion = 50;
const names: Record<string, string> = {
  human: "Human",
  ai: "Assistant",
  system: "System",
  tool: "Tool",
  function: "Function",
};

/** The large keys that were asked for: stepping through a thread goes on showing them. */
const asked = signal<ReadonlySet<string>>(new Set());

interface Props {
  /** Which state it is. */
  id: string;
  values: Json;
  changes: Change[];
  load: (path: Path) => Promise<Json>;
}

export function ChatView({ id, values, changes, load }: Props) {
  const there = chats(values);
  const large = leftOut(values);
  if (!there.length && !large.length) {
    return (
      <Empty icon="question" title="No messages in this state">
        A key that holds a list of messages is shown here as a conversation.
      </Empty>
    );
  }
  const fresh = new Set(
    changes
      .filter((change) => change.kind !== "removed")
      .map((change) => JSON.stringify(change.path.slice(0, 2))),
  );
  return (
    <>
      {there.map((chat) => (
        <section key={chat.key} class="chat" aria-label={`Messages in ${chat.key}`}>
          {there.length + large.length > 1 && <h3 class="section-title">{chat.key}</h3>}
          <Talk chat={chat} fresh={fresh} />
        </section>
      ))}
      {large.map(({ key, size }) => (
        <section key={key} class="chat" aria-label={`Messages in ${key}`}>
          {there.length + large.length > 1 && <h3 class="section-title">{key}</h3>}
          {asked.value.has(key) ? (
            <Loaded id={id} name={key} fresh={fresh} load={load} />
          ) : (
            <button
              type="button"
              class="linkish"
              onClick={() => {
                asked.value = new Set([...asked.peek(), key]);
              }}
            >
              Load {key} ({bytes(size)})
            </button>
          )}
        </section>
      ))}
    </>
  );
}

/** The messages of a key that the server left out for its size. */
function Loaded({
  id,
  name,
  fresh,
  load,
}: {
  id: string;
  name: string;
  fresh: Set<string>;
  load: Props["load"];
}) {
  const state = useLoad(JSON.stringify([id, name]), () => load([name]));
  if (state.status === "failed") return <Failure error={state.error} retry={state.reload} />;
  if (state.value === null) return <Skeleton rows={8} />;
  const [chat] = chats({ [name]: state.value });
  return chat ? <Talk chat={chat} fresh={fresh} /> : <p class="message-none">No messages</p>;
}

/** The newest messages; older ones on demand. */
function Talk({ chat, fresh }: { chat: Chat; fresh: Set<string> }) {
  const shown = useSignal(portion);
  const first = Math.max(0, chat.messages.length - shown.value);
  return (
    <>
      {first > 0 && (
        <button
          type="button"
          class="linkish"
          onClick={() => {
            shown.value += portion;
          }}
        >
          Show {count(Math.min(first, portion))} earlier of {count(first)}
        </button>
      )}
      <ol class="talk">
        {chat.messages.slice(first).map((message, index) => (
          <Message
            key={first + index}
            message={message}
            fresh={
              fresh.has(JSON.stringify([chat.key, first + index])) ||
              fresh.has(JSON.stringify([chat.key]))
            }
          />
        ))}
      </ol>
    </>
  );
}

function Message({ message, fresh }: { message: Json; fresh: boolean }) {
  if (!isObject(message)) return null;
  if (typeof message["$more"] === "number") {
    return <li class="message">A message of {bytes(message["$more"])}: see it under State.</li>;
  }
  const kind = kindOf(message);
  const text = messageText(message["content"] ?? "");
  const calls = toolCalls(message);
  const name = typeof message["name"] === "string" ? message["name"] : null;
  const others = blocks(message);
  return (
    <li class={`message message-${kind in names ? kind : "other"}`}>
      <p class="message-head">
        <span class="message-role">{names[kind] ?? kind}</span>
        {name && <span class="message-name">{name}</span>}
        {fresh && <span class="flag flag-new">new</span>}
      </p>
      {text && (
        <div class="message-text">
          <Text text={text} fold={2000} />
        </div>
      )}
      {others.map((block, index) => (
        <p key={index} class="message-block">
          {block}
        </p>
      ))}
      {calls.map((call, index) => (
        <Call key={call.id ?? index} name={call.name} args={call.args} />
      ))}
      {!text && !calls.length && !others.length && <p class="message-none">No text</p>}
    </li>
  );
}

function Call({ name, args }: { name: string; args: Json }) {
  const open = useSignal<ReadonlyMap<string, boolean>>(opened().value);
  return (
    <div class="call">
      <p class="call-name">
        <Icon name="tool" size={13} /> {name}
      </p>
      {isObject(args) && Object.keys(args).length > 0 && <ValueTree value={args} context={{ open }} />}
    </div>
  );
}

/** What is neither text nor a call: pictures and files are named, never loaded. */
function blocks(message: JsonObject): string[] {
  const content = message["content"];
  if (!Array.isArray(content)) return [];
  return content.flatMap((block) => {
    if (!isObject(block) || typeof block["text"] === "string") return [];
    const type = block["type"];
    return typeof type === "string" && !/tool_(use|call)/.test(type) ? [type] : [];
  });
}
