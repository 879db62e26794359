// Buttons, badges, and what a view shows when it has nothing to show.

import type { ComponentChildren } from "preact";
import { useSignal } from "@preact/signals";
import { Icon, type IconName } from "./icons";

interface ButtonProps {
  icon?: IconName;
  kind?: "plain" | "primary" | "ghost";
  /** The name of a button without a text. */
  label?: string;
  title?: string;
  class?: string;
  type?: "button" | "submit";
  disabled?: boolean;
  onClick?: () => void;
  children?: ComponentChildren;
}

export function Button({ icon, kind = "plain", label, children, ...rest }: ButtonProps) {
  const bare = children === undefined;
  return (
    <button
      type="button"
      {...rest}
      class={`button button-${kind}${bare ? " button-icon" : ""} ${rest.class ?? ""}`}
      aria-label={label}
      title={rest.title ?? label}
    >
      {icon && <Icon name={icon} />}
      {children}
    </button>
  );
}

const statuses: Record<string, string> = {
  idle: "Idle",
  busy: "Running",
  running: "Running",
  stale: "Lost",
  interrupted: "Waiting",
  error: "Failed",
};

export function Status({ status }: { status: string }) {
  const known = Object.hasOwn(statuses, status) ? status : "idle";
  return <span class={`status status-${known}`}>{statuses[known]}</span>;
}

export function Copy({ text, label }: { text: string; label: string }) {
  const copied = useSignal(false);
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      copied.value = true;
      setTimeout(() => {
        copied.value = false;
      }, 1200);
    } catch {
      // Not allowed outside a secure context: the text can be selected instead.
    }
  };
  return (
    <Button
      kind="ghost"
      class="copy"
      icon={copied.value ? "check" : "copy"}
      label={copied.value ? "Copied" : label}
      onClick={() => void copy()}
    />
  );
}

export function Empty({
  icon,
  title,
  children,
}: {
  icon: IconName;
  title: string;
  children?: ComponentChildren;
}) {
  return (
    <div class="empty">
      <span class="empty-icon">
        <Icon name={icon} size={22} />
      </span>
      <p class="empty-title">{title}</p>
      {children && <div class="empty-text">{children}</div>}
    </div>
  );
}

export function Failure({ error, retry }: { error: string; retry?: () => void }) {
  return (
    <div class="failure" role="alert">
      <Icon name="alert" />
      <p>{error}</p>
      {retry && (
        <Button icon="refresh" onClick={retry}>
          Try again
        </Button>
      )}
    </div>
  );
}

export function Skeleton({ rows = 6 }: { rows?: number }) {
  return (
    <div class="skeleton" role="status" aria-label="Loading">
      {Array.from({ length: rows }, (_, index) => (
        <span key={index} class={`skeleton-row skeleton-${index % 4}`} />
      ))}
    </div>
  );
}

export function Tabs<T extends string>({
  tabs,
  chosen,
  choose,
  label,
}: {
  tabs: { id: T; name: string; note?: string | number | null; class?: string }[];
  chosen: T;
  choose: (tab: T) => void;
  label: string;
}) {
  const move = (event: KeyboardEvent) => {
    const step = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
    if (!step) return;
    const at = tabs.findIndex((tab) => tab.id === chosen);
    const next = tabs[(at + step + tabs.length) % tabs.length]!;
    choose(next.id);
    const list = event.currentTarget as HTMLElement;
    list.querySelector<HTMLElement>(`[data-tab="${next.id}"]`)?.focus();
  };
  return (
    <div class="tabs" role="tablist" aria-label={label} onKeyDown={move}>
      {tabs.map((tab) => (
        <button
          key={tab.id}
          type="button"
          role="tab"
          class={`tab ${tab.class ?? ""}`}
          data-tab={tab.id}
          aria-selected={tab.id === chosen}
          tabIndex={tab.id === chosen ? 0 : -1}
          onClick={() => choose(tab.id)}
        >
          {tab.name}
          {tab.note !== undefined && tab.note !== null && <span class="tab-note">{tab.note}</span>}
        </button>
      ))}
    </div>
  );
}
