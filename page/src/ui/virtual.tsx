// A list of rows of one height that draws only those in sight.

import { useSignal } from "@preact/signals";
import type { ComponentChildren, RefObject } from "preact";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";

interface Props {
  count: number;
  height: number;
  row: (index: number) => ComponentChildren;
  label: string;
  class?: string;
  role?: "listbox" | "list" | "rowgroup";
  /** The row to keep in sight. */
  show?: number | null;
  /** Told whenever other rows come into sight. */
  seen?: (first: number, last: number) => void;
  box?: RefObject<HTMLDivElement>;
  /** Of a listbox: the id of the chosen row, and what to do with keys while it has the focus. */
  active?: string | undefined;
  onKey?: (event: KeyboardEvent) => void;
}

const spare = 8;

export function VirtualList(props: Props) {
  const { count, height, row, show, seen } = props;
  const own = useRef<HTMLDivElement>(null);
  const box = props.box ?? own;
  const top = useSignal(0);
  const size = useSignal(600);

  useLayoutEffect(() => {
    const element = box.current!;
    size.value = element.clientHeight;
    const observer = new ResizeObserver(() => {
      size.value = element.clientHeight;
    });
    observer.observe(element);
    return () => observer.disconnect();
  }, []);

  useLayoutEffect(() => {
    const element = box.current!;
    if (show === null || show === undefined || show < 0) return;
    const at = show * height;
    if (at < element.scrollTop) element.scrollTop = at;
    else if (at + height > element.scrollTop + element.clientHeight) {
      element.scrollTop = at + height - element.clientHeight;
    }
  }, [show]);

  // Scrolling by less than a row draws nothing again.
  const first = Math.max(0, Math.min(Math.floor(top.value / height), count - 1) - spare);
  const last = Math.min(count, Math.ceil((top.value + size.value) / height) + spare);
  useEffect(() => seen?.(first, last), [first, last, count]);

  const rows = [];
  for (let index = first; index < last; index += 1) rows.push(row(index));
  return (
    <div
      ref={box}
      class={`virtual ${props.class ?? ""}`}
      onScroll={(event) => {
        const at = Math.floor(event.currentTarget.scrollTop / height) * height;
        if (at !== top.peek()) top.value = at;
      }}
    >
      <div
        class="virtual-space"
        role={props.role ?? "list"}
        aria-label={props.label}
        tabIndex={props.role === "listbox" ? 0 : undefined}
        aria-activedescendant={props.active}
        onKeyDown={props.onKey}
        style={{ height: `${count * height}px` }}
      >
        <div class="virtual-rows" style={{ transform: `translateY(${first * height}px)` }}>
          {rows}
        </div>
      </div>
    </div>
  );
}
