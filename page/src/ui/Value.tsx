// Any JSON value as a tree. Large parts are folded, drawn in portions, and asked for on demand.

import { type Signal, signal, useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { isObject, type Json, type JsonObject, type Path } from "../api/types";
import { bytes, count } from "../model/format";
import { message } from "../model/load";
import { Icon } from "./icons";

export interface TreeContext {
  /** Asks for a value that was too large to send. */
  load?: (path: Path) => Promise<Json>;
  /** Controls shown on a row. */
  actions?: (path: Path, value: Json) => ComponentChildren;
  /** What a row is marked with: a value that this step changed. */
  mark?: (path: Path) => string;
  /** Which rows are open; kept by the caller, so that stepping through a thread keeps the view. */
  open: Signal<ReadonlyMap<string, boolean>>;
}

export const opened = (): Signal<ReadonlyMap<string, boolean>> => signal(new Map());

const portion = 100;
const brief = 240;
const slack = 400;
const longText = 20_000;

export function ValueTree({ value, context }: { value: Json; context: TreeContext }) {
  if (isObject(value) && !special(value)) {
    const keys = Object.keys(value);
    if (!keys.length) return <p class="tree-none">Empty</p>;
    return (
      <div class="tree" role="tree" aria-label="Values">
        <Children entries={keys.map((key) => [key, value[key]!])} path={[]} context={context} />
      </div>
    );
  }
  return (
    <div class="tree" role="tree" aria-label="Value">
      <Node name={null} value={value} path={[]} context={context} />
    </div>
  );
}

interface NodeProps {
  name: string | number | null;
  value: Json;
  path: Path;
  context: TreeContext;
}

function Node({ name, value, path, context }: NodeProps) {
  const key = JSON.stringify(path);
  const wrapped = isObject(value) ? special(value) : null;
  const entries = wrapped ? wrapped.inside : childrenOf(value);
  const mark = context.mark?.(path) ?? "";
  if (wrapped?.kind === "more") {
    return <Missing name={name} size={wrapped.size} path={path} context={context} />;
  }
  if (!entries) {
    return (
      <div class={`tree-row ${mark}`} role="treeitem" data-path={key}>
        <span class="tree-twist" />
        <Key name={name} />
        <Leaf value={value} wrapped={wrapped} />
        <Actions path={path} value={value} context={context} />
      </div>
    );
  }
  const open = context.open.value.get(key) ?? (path.length < 2 && entries.length <= 12);
  const toggle = () => {
    context.open.value = new Map(context.open.peek()).set(key, !open);
  };
  return (
    <div class="tree-branch" role="treeitem" aria-expanded={open} data-path={key}>
      <div class={`tree-row ${mark}`}>
        <button
          type="button"
          class="tree-toggle"
          aria-expanded={open}
          onClick={toggle}
        >
          <Icon name={open ? "down" : "right"} size={12} />
          <Key name={name} />
          <span class="tree-summary">{summary(value, wrapped, entries.length, open)}</span>
        </button>
        <Actions path={path} value={value} context={context} />
      </div>
      {open && (
        <div class="tree-children" role="group">
          <Children entries={entries} path={path} context={context} />
        </div>
      )}
    </div>
  );
}

type Entries = [string | number, Json][];

function Children({ entries, path, context }: { entries: Entries; path: Path; context: TreeContext }) {
  const shown = useSignal(portion);
  const rest = entries.length - shown.value;
  return (
    <>
      {entries.slice(0, shown.value).map(([name, value]) => (
        <Node key={name} name={name} value={value} path={[...path, name]} context={context} />
      ))}
      {rest > 0 && (
        <button
          type="button"
          class="linkish tree-more"
          onClick={() => {
            shown.value += portion;
          }}
        >
          Show {count(Math.min(rest, portion))} more of {count(rest)}
        </button>
      )}
    </>
  );
}

function Key({ name }: { name: string | number | null }) {
  if (name === null) return null;
  const style = typeof name === "number" ? "tree-index" : "tree-key";
  return (
    <span class={style} title={String(name).length > 30 ? String(name) : undefined}>
      {name}
    </span>
  );
}

function Actions({ path, value, context }: { path: Path; value: Json; context: TreeContext }) {
  const actions = context.actions?.(path, value);
  return actions ? <span class="tree-actions">{actions}</span> : null;
}

/** A value that the server left out for its size. */
function Missing({
  name,
  size,
  path,
  context,
}: {
  name: string | number | null;
  size: number;
  path: Path;
  context: TreeContext;
}) {
  const state = useSignal<"folded" | "loading" | { value: Json } | { error: string }>("folded");
  const now = state.value;
  if (typeof now === "object" && "value" in now) {
    return <Node name={name} value={now.value} path={path} context={context} />;
  }
  const load = () => {
    state.value = "loading";
    context.load?.(path).then(
      (value) => {
        state.value = { value };
      },
      (error: unknown) => {
        state.value = { error: message(error) };
      },
    );
  };
  return (
    <div class="tree-row" role="treeitem" data-path={JSON.stringify(path)}>
      <span class="tree-twist" />
      <Key name={name} />
      {now === "loading" ? (
        <span class="tree-summary">Loading {bytes(size)}…</span>
      ) : context.load ? (
        <button type="button" class="linkish" onClick={load}>
          Load {bytes(size)}
        </button>
      ) : (
        <span class="tree-summary">{bytes(size)}, not shown</span>
      )}
      {typeof now === "object" && <span class="tree-error">{now.error}</span>}
    </div>
  );
}

function Leaf({ value, wrapped }: { value: Json; wrapped: Special | null }) {
  if (wrapped) return <span class="tree-special">{wrapped.text}</span>;
  if (typeof value === "string") return <Text text={value} />;
  if (value === null) return <span class="tree-null">null</span>;
  if (isObject(value) || Array.isArray(value)) {
    return <span class="tree-null">{isObject(value) ? "{ }" : "[ ]"}</span>;
  }
  return <span class="tree-number">{String(value)}</span>;
}

/** A text: short ones in the row, long ones folded. */
export function Text({ text, fold = brief }: { text: string; fold?: number }) {
  const shown = useSignal(brief);
  if (text.length <= brief && !text.includes("\n")) return <span class="tree-text">{text}</span>;
  const short = text.split("\n", 12).join("\n").slice(0, fold);
  // Folding away a few words would save no room.
  const folded = shown.value === brief && text.length - short.length > slack;
  const part = folded ? short : text.slice(0, Math.max(shown.value, longText));
  const left = text.length - part.length;
  return (
    <span class="tree-text tree-text-long">
      {part}
      {left > 0 && (
        <>
          {"… "}
          <button
            type="button"
            class="linkish"
            onClick={() => {
              shown.value = Math.max(shown.value, brief + 1) + (folded ? 0 : longText);
            }}
          >
            Show {left > longText ? "more" : "all"} ({bytes(left)})
          </button>
        </>
      )}
    </span>
  );
}

interface Special {
  kind: "more" | "bytes" | "type";
  text: string;
  size: number;
  inside: Entries | null;
}

/** Stand-ins for what JSON cannot say: too large, bytes, unreadable, and values of other types. */
export function special(value: JsonObject): Special | null {
  const more = value["$more"];
  if (typeof more === "number") return { kind: "more", text: "", size: more, inside: null };
  const size = value["$bytes"];
  if (typeof size === "number") {
    return { kind: "bytes", text: `${bytes(size)} of bytes`, size, inside: null };
  }
  const error = value["$error"];
  if (typeof error === "string") {
    return { kind: "type", text: `cannot be read: ${error}`, size: 0, inside: null };
  }
  const type = value["$type"];
  if (typeof type !== "string") return null;
  if (value["$deep"] === true) {
    return { kind: "type", text: "nested too deeply to be shown", size: 0, inside: null };
  }
  const inside = insideOf(value);
  const plain = value["value"];
  const shown = inside || plain === undefined ? type : `${type} ${String(plain)}`;
  return { kind: "type", text: shown, size: 0, inside };
}

/** The parts of a typed value, under the paths by which the server knows them. */
function insideOf(value: JsonObject): Entries | null {
  const { $type: _, items, pairs, ...rest } = value;
  if (Array.isArray(items)) return childrenOf(items);
  if (Array.isArray(pairs)) {
    const named = pairs.flatMap((pair): Entries => {
      if (!Array.isArray(pair)) return [];
      const [key = null, member = null] = pair;
      return [[typeof key === "string" ? key : JSON.stringify(key), member]];
    });
    return named.length ? named : null;
  }
  const keys = Object.keys(rest);
  if (keys.length === 1 && keys[0] === "value") return childrenOf(rest["value"]!);
  return keys.length ? Object.entries(rest) : null;
}

function childrenOf(value: Json): Entries | null {
  if (Array.isArray(value)) return value.length ? value.map((each, index) => [index, each]) : null;
  if (!isObject(value)) return null;
  const entries = Object.entries(value);
  return entries.length ? entries : null;
}

function summary(value: Json, wrapped: Special | null, size: number, open: boolean): string {
  if (wrapped) return wrapped.text;
  if (Array.isArray(value)) return `[${count(size)}]`;
  if (open || !isObject(value)) return `{${count(size)}}`;
  const said = value["type"];
  const text = value["content"] ?? value["name"] ?? value["title"] ?? value["id"];
  const head = typeof said === "string" ? `${said} ` : "";
  if (typeof text === "string" && text) return `${head}${JSON.stringify(text.slice(0, 60))}`;
  return `{ ${Object.keys(value).slice(0, 5).join(", ")}${size > 5 ? ", …" : ""} }`;
}
