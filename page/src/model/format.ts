// Numbers, times and names as a reader wants them.

import { signal } from "@preact/signals";
import type { JsonObject, Path, Time } from "../api/types";

/** Ticks twice a minute, so that "2 min ago" stays true. */
export const now = signal(Date.now());
setInterval(() => {
  now.value = Date.now();
}, 30_000);

export function bytes(count: number | null | undefined): string {
  if (count === null || count === undefined) return "–";
  if (count < 1000) return `${count} B`;
  const units = ["kB", "MB", "GB", "TB"];
  let value = count / 1000;
  let unit = 0;
  while (value >= 999.5 && unit < units.length - 1) {
    value /= 1000;
    unit += 1;
  }
  return `${value < 10 ? value.toFixed(1) : Math.round(value)} ${units[unit]}`;
}

const numbers = new Intl.NumberFormat("en");
export const count = (value: number | null | undefined): string =>
  value === null || value === undefined ? "–" : numbers.format(value);

export const plural = (value: number, one: string, many = `${one}s`): string =>
  `${count(value)} ${value === 1 ? one : many}`;

/** A name of users': what has no width, or would turn the direction of a text, is an escape. */
export const plain = (name: string): string =>
  name.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, (sign) => {
    const code = sign.codePointAt(0)!;
    return code < 0x100
      ? `\\x${code.toString(16).padStart(2, "0")}`
      : `\\u${code.toString(16).padStart(4, "0")}`;
  });

/** A time from the server: ISO 8601, or seconds since 1970. */
function date(time: Time | undefined): Date | null {
  if (time === null || time === undefined || time === "") return null;
  const found = new Date(typeof time === "number" ? time * 1000 : time);
  return Number.isNaN(found.getTime()) ? null : found;
}

export function ago(time: Time | undefined): string {
  const then = date(time);
  if (!then) return "–";
  const seconds = Math.max(0, (now.value - then.getTime()) / 1000);
  if (seconds < 45) return "just now";
  if (seconds < 3600) return `${Math.max(1, Math.round(seconds / 60))} min ago`;
  if (seconds < 86_400) return `${Math.round(seconds / 3600)} h ago`;
  if (seconds < 86_400 * 30) return `${Math.round(seconds / 86_400)} d ago`;
  return day(then);
}

const two = (value: number) => String(value).padStart(2, "0");
const day = (then: Date) => `${then.getFullYear()}-${two(then.getMonth() + 1)}-${two(then.getDate())}`;

export function clock(time: Time | undefined): string {
  const then = date(time);
  return then ? `${two(then.getHours())}:${two(then.getMinutes())}:${two(then.getSeconds())}` : "";
}

export function moment(time: Time | undefined): string {
  const then = date(time);
  return then ? `${day(then)} ${clock(time)}` : "";
}

/** The part of an id that tells it from its neighbours; of a UUID the end, as on the command line. */
export function shortId(id: string): string {
  if (/^[0-9a-f]{8}-[0-9a-f-]{27}$/i.test(id)) return id.slice(-8);
  return id.length > 12 ? `${id.slice(0, 11)}…` : id;
}

export function pathText(path: Path): string {
  return path
    .map((part, index) => {
      if (typeof part === "number") return `[${part}]`;
      if (!/^[\p{L}_$][\p{L}\p{N}_$-]*$/u.test(part)) return `[${JSON.stringify(part)}]`;
      return index ? `.${part}` : part;
    })
    .join("");
}

/** `agent:3f…|tools:9a…` as `agent › tools`. */
export function namespaceText(namespace: string): string {
  if (!namespace) return "Root";
  return namespace
    .split("|")
    .map((part) => part.split(":")[0] || part)
    .join(" › ");
}

/** Metadata that says whose a thread is. */
export const owners = ["owner", "user_id", "user"];

export function ownerOf(metadata: JsonObject): { key: string; name: string } | null {
  for (const key of owners) {
    const name = metadata?.[key];
    if (typeof name === "string") return { key, name };
  }
  return null;
}

const quoted = (text: string): string =>
  text.replaceAll("%", "%25").replaceAll("@", "%40").replaceAll("/", "%2F");

/** A checkpoint as the command line takes it: THREAD@CHECKPOINT, THREAD/NAMESPACE@CHECKPOINT. */
export function refText(at: { thread: string; namespace: string; checkpoint?: string | null }) {
  const place = [at.thread, at.namespace].filter(Boolean).map(quoted).join("/");
  return at.checkpoint ? `${place}@${quoted(at.checkpoint)}` : place;
}

/** Names in their order; one that comes several times in a row once, with how often. */
export function counted(names: string[]): string[] {
  const runs: { name: string; times: number }[] = [];
  for (const name of names) {
    const last = runs.at(-1);
    if (last?.name === name) last.times += 1;
    else runs.push({ name, times: 1 });
  }
  return runs.map(({ name, times }) => (times > 1 ? `${name} ×${times}` : name));
}
