import { useSignal } from "@preact/signals";
import type { Task } from "../api/types";
import { Icon } from "../ui/icons";

/** The error of a task: its last line at once, all of it on demand. */
export function Failed({ task }: { task: Task }) {
  const all = useSignal(false);
  const text = (task.error ?? "").trim();
  const lines = text.split("\n");
  const short = lines.length > 3 ? lines.at(-1)! : text;
  return (
    <div class="note note-failed" role="group" aria-label={`${task.name} failed`}>
      <p class="note-title">
        <Icon name="alert" /> <strong>{task.name}</strong> failed
      </p>
      <pre class="note-text">{(all.value ? text : short).slice(0, 20_000)}</pre>
      {short !== text && (
        <button
          type="button"
          class="linkish"
          onClick={() => {
            all.value = !all.value;
          }}
        >
          {all.value ? "Show less" : `Show all ${lines.length} lines`}
        </button>
      )}
    </div>
  );
}
