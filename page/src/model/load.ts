// A value that comes from the server: loading, there, or failed with a reason.

import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";

export type Loaded<T> =
  | { status: "loading"; value: T | null }
  | { status: "ready"; value: T }
  | { status: "failed"; value: T | null; error: string };

export const message = (error: unknown): string =>
  error instanceof Error ? error.message : String(error);

export const aborted = (error: unknown): boolean =>
  error instanceof DOMException && error.name === "AbortError";

/**
 * Loads whenever `key` changes. The previous value stays until the next one is there, so that
 * nothing jumps; a slow answer to an old question is dropped.
 */
export function useLoad<T>(key: string, load: (signal: AbortSignal) => Promise<T>) {
  const result = useSignal<Loaded<T>>({ status: "loading", value: null });
  const again = useSignal(0);
  const turn = again.value;
  useEffect(() => {
    const controller = new AbortController();
    result.value = { status: "loading", value: result.peek().value };
    load(controller.signal).then(
      (value) => {
        if (!controller.signal.aborted) result.value = { status: "ready", value };
      },
      (error: unknown) => {
        if (controller.signal.aborted || aborted(error)) return;
        result.value = { status: "failed", value: null, error: message(error) };
      },
    );
    return () => controller.abort();
  }, [key, turn]);
  const reload = () => {
    again.value += 1;
  };
  return { ...result.value, reload };
}
