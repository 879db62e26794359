// Which values are lists of messages, and what is said in them.

import { isObject, type Json, type JsonObject } from "../api/types";

const kinds = new Set(["human", "ai", "system", "tool", "function", "chat", "user", "assistant"]);

export function kindOf(message: JsonObject): string {
  const type = message["type"] ?? message["role"];
  if (typeof type !== "string") return "";
  const kind = type.replace(/MessageChunk$|Message$/, "").toLowerCase();
  if (kind === "user") return "human";
  return kind === "assistant" ? "ai" : kind;
}

function isMessage(value: Json): value is JsonObject {
  return isObject(value) && kinds.has(kindOf(value)) && "content" in value;
}

/** A state key that holds messages, with its messages. */
export interface Chat {
  key: string;
  messages: Json[];
}

export function chats(values: Json): Chat[] {
  if (!isObject(values)) return [];
  return Object.entries(values).flatMap(([key, value]) => {
    if (!Array.isArray(value) || !value.length) return [];
    const shown = value.filter((each) => !(isObject(each) && "$more" in each));
    return shown.length && shown.every(isMessage) ? [{ key, messages: value }] : [];
  });
}

/** A state key whose value was too large to be sent unasked, and may be a list of messages. */
export interface LeftOut {
  key: string;
  size: number;
}

export function leftOut(values: Json): LeftOut[] {
  if (!isObject(values)) return [];
  return Object.entries(values).flatMap(([key, value]) => {
    const size = isObject(value) && "members" in value ? value["$more"] : null;
    return typeof size === "number" ? [{ key, size }] : [];
  });
}

/** The words of a message's content, which is a text or a list of blocks. */
export function messageText(content: Json): string {
  if (typeof content === "string") return content;
  if (!Array.isArray(content)) return "";
  return content
    .map((block) => {
      if (typeof block === "string") return block;
      return isObject(block) && typeof block["text"] === "string" ? block["text"] : "";
    })
    .join("");
}

export interface ToolCall {
  name: string;
  args: Json;
  id: string | null;
}

export function toolCalls(message: JsonObject): ToolCall[] {
  const calls = message["tool_calls"];
  if (!Array.isArray(calls)) return [];
  return calls.filter(isObject).map((call) => ({
    name: String(call["name"] ?? "tool"),
    args: call["args"] ?? null,
    id: typeof call["id"] === "string" ? call["id"] : null,
  }));
}
