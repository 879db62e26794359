// Light, dark, or what the system says.

import { signal } from "@preact/signals";

export type Theme = "system" | "light" | "dark";
const key = "milepost.theme";

function stored(): Theme {
  try {
    const theme = localStorage.getItem(key);
    return theme === "light" || theme === "dark" ? theme : "system";
  } catch {
    return "system";
  }
}

export const theme = signal<Theme>(stored());

export function setTheme(next: Theme): void {
  theme.value = next;
  if (next === "system") delete document.documentElement.dataset["theme"];
  else document.documentElement.dataset["theme"] = next;
  try {
    if (next === "system") localStorage.removeItem(key);
    else localStorage.setItem(key, next);
  } catch {
    // Storage may be switched off: the choice holds until the page is closed.
  }
}
