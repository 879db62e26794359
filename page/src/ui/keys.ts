// Keys for the whole page. A view adds its own while it is shown; the newest one is asked first.

import { useLayoutEffect, useRef } from "preact/hooks";

type Keys = Record<string, (event: KeyboardEvent) => void>;
const maps: { current: Keys }[] = [];

function typing(target: EventTarget | null): boolean {
  return (
    target instanceof HTMLElement &&
    (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName))
  );
}

addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
  if (document.querySelector("dialog[open]")) return;
  if (typing(event.target)) {
    if (event.key === "Escape") (event.target as HTMLElement).blur();
    return;
  }
  for (let index = maps.length - 1; index >= 0; index -= 1) {
    const action = maps[index]!.current[event.key];
    if (!action) continue;
    event.preventDefault();
    action(event);
    return;
  }
});

export function useKeys(keys: Keys): void {
  const latest = useRef(keys);
  latest.current = keys;
  // Before the view is painted: a key that is pressed at once is not lost.
  useLayoutEffect(() => {
    maps.push(latest);
    return () => {
      maps.splice(maps.indexOf(latest), 1);
    };
  }, []);
}
