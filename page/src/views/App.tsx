// The frame: the bar at the top and the view that the address names.

import { connect, failed, helping, info } from "../model/app";
import { current, go, href, view } from "../model/router";
import { setTheme, type Theme, theme } from "../model/theme";
import { Icon } from "../ui/icons";
import { useKeys } from "../ui/keys";
import { Button, Empty, Failure, Skeleton } from "../ui/parts";
import { Help } from "./Help";
import { StatsPage } from "./Stats";
import { StorePage } from "./Store";
import { ThreadPage } from "../thread/ThreadPage";
import { ThreadsPage } from "./Threads";

export function App() {
  useKeys({
    "?": () => {
      helping.value = true;
    },
    "1": () => go("#/threads"),
    "2": () => go("#/store"),
    "3": () => go("#/stats"),
  });
  return (
    <>
      <Bar />
      <main class="main">
        {failed.value ? (
          <Failure error={failed.value} retry={() => void connect()} />
        ) : info.value ? (
          <View />
        ) : (
          <Skeleton />
        )}
      </main>
      {helping.value && (
        <Help
          close={() => {
            helping.value = false;
          }}
        />
      )}
    </>
  );
}

function View() {
  const id = current.value.parts[1];
  switch (view.value) {
    case "threads":
      return <ThreadsPage />;
    case "thread":
      if (id === undefined) return <ThreadsPage />;
      return <ThreadPage key={id} id={id} />;
    case "store":
      return <StorePage />;
    case "stats":
      return <StatsPage />;
    default:
      return (
        <Empty icon="search" title="There is no such view">
          <a href="#/threads">See the threads</a>
        </Empty>
      );
  }
}

function Bar() {
  const known = info.value;
  return (
    <header class="bar">
      <a class="brand" href="#/threads" aria-label="milepost: threads">
        <svg class="brand-mark" viewBox="0 0 20 20" aria-hidden="true">
          <path d="M6 3v14M6 13.500c0-5.5 8-2.5 8-7.5" />
          <circle cx="6" cy="4" r="2.2" />
          <circle cx="6" cy="16" r="2.2" />
          <circle cx="14" cy="5" r="2.2" />
        </svg>
        <span>milepost</span>
      </a>
      <nav class="nav" aria-label="Views">
        <Tab name="Threads" to="threads" on={["threads", "thread"]} />
        {(known?.store ?? true) && <Tab name="Store" to="store" on={["store"]} />}
        <Tab name="Stats" to="stats" on={["stats"]} />
      </nav>
      <div class="bar-right">
        {known && (
          <span class="database" title={known.database.url}>
            <span class="database-kind">{known.database.kind}</span>
            <span class="database-url">{short(known.database.url)}</span>
          </span>
        )}
        {known && (
          <span
            class={`mode ${known.write ? "mode-write" : ""}`}
            title={
              known.write
                ? "Threads can be changed from this page"
                : "Nothing can be changed from this page. Start with --write and --graph to run and fork."
            }
          >
            {known.write ? "write" : "read-only"}
          </span>
        )}
        <ThemeSwitch />
        <Button
          kind="ghost"
          icon="help"
          label="Keys and help"
          onClick={() => {
            helping.value = true;
          }}
        />
      </div>
    </header>
  );
}

function Tab({ name, to, on }: { name: string; to: string; on: string[] }) {
  const here = on.includes(view.value);
  return (
    <a class="nav-link" href={href([to])} aria-current={here ? "page" : undefined}>
      {name}
    </a>
  );
}

const themes: Record<Theme, { icon: "system" | "sun" | "moon"; next: Theme; name: string }> = {
  system: { icon: "system", next: "light", name: "as the system has it" },
  light: { icon: "sun", next: "dark", name: "light" },
  dark: { icon: "moon", next: "system", name: "dark" },
};

function ThemeSwitch() {
  const { icon, next, name } = themes[theme.value];
  return (
    <button
      type="button"
      class="button button-ghost button-icon"
      aria-label={`Theme: ${name}. Switch to ${themes[next].name}`}
      title={`Theme: ${name}`}
      onClick={() => setTheme(next)}
    >
      <Icon name={icon} />
    </button>
  );
}

/** The end of a database's address, which tells one from the other. */
function short(url: string): string {
  const rest = url.replace(/^[\w+]+:\/\/\/?/, "");
  return rest.length > 36 ? `…${rest.slice(-35)}` : rest;
}
