// Small line icons, drawn here so that the page asks for nothing from elsewhere.

const paths = {
  search: "M7 12A5 5 0 1 0 7 2a5 5 0 0 0 0 10Zm3.6-1.4L14 14",
  close: "M3.5 3.5l9 9m0-9l-9 9",
  copy: "M5.5 5.5h7v8h-7zM3 10.5v-8h7",
  check: "M3 8.5l3.2 3.2L13 4.8",
  right: "M6 3.5 10.5 8 6 12.5",
  left: "M10 3.5 5.5 8l4.5 4.5",
  down: "M3.5 6 8 10.5 12.5 6",
  sun: "M8 11a3 3 0 1 0 0-6 3 3 0 0 0 0 6ZM8 1v1.5M8 13.5V15M1 8h1.5M13.5 8H15M3 3l1 1M12 12l1 1M13 3l-1 1M4 12l-1 1",
  moon: "M13.5 9.6A5.8 5.8 0 0 1 6.4 2.5a5.8 5.8 0 1 0 7.1 7.1Z",
  system: "M2 3h12v8H2zM6 14h4M8 11v3",
  help: "M8 14.5a6.5 6.5 0 1 0 0-13 6.5 6.5 0 0 0 0 13ZM6.2 6.2a1.9 1.9 0 1 1 2.6 1.9c-.5.3-.8.6-.8 1.2M8 11.3v.1",
  alert: "M8 2 14.5 13.5h-13zM8 6.5v3.2M8 11.6v.1",
  question: "M2.5 2.5h11v8.5H8l-3.5 3V11h-2zM6.6 5.4a1.5 1.5 0 1 1 2 1.5c-.4.2-.6.5-.6.9M8 9.2v.1",
  fork: "M4.5 5.5v5M4.5 5.5a1.6 1.6 0 1 0 0-3.2 1.6 1.6 0 0 0 0 3.2Zm0 8.2a1.6 1.6 0 1 0 0-3.2 1.6 1.6 0 0 0 0 3.2Zm7-8.2a1.6 1.6 0 1 0 0-3.2 1.6 1.6 0 0 0 0 3.2Zm0 0c0 3.5-7 1.5-7 5",
  compare: "M5 3v10M5 13l-2.3-2.3M5 13l2.3-2.3M11 13V3M11 3 8.7 5.3M11 3l2.3 2.3",
  swap: "M2.5 5h10.5M10.5 2.5 13 5l-2.5 2.5M13.5 11H3M5.5 8.5 3 11l2.5 2.5",
  expand: "M9.5 2.5h4v4M13.5 2.5 9 7M6.5 13.5h-4v-4M2.5 13.5 7 9",
  play: "M4.5 2.8v10.4L13 8z",
  stop: "M4 4h8v8H4z",
  edit: "M3 13l.7-3L10.8 2.900l2.3 2.300L6 12.300zM9.3 4.400l2.3 2.3",
  person: "M8 7.500a2.7 2.7 0 1 0 0-5.4 2.7 2.7 0 0 0 0 5.400ZM2.8 14c.4-2.7 2.5-4.3 5.2-4.300s4.8 1.6 5.2 4.3",
  tag: "M2.5 7.500v-5h5l6 6-5 5zM5.2 5.200v.1",
  refresh: "M13 8a5 5 0 1 1-1.5-3.600M13 2v3h-3",
  layers: "M8 2 2 5.200l6 3.2 6-3.200zM2 8.400l6 3.2 6-3.200M2 11.400l6 3.2 6-3.2",
  send: "M2.5 8 13.5 2.8 10.8 13.5 7.6 9.300zM7.6 9.300l5.9-6.5",
  link: "M6.8 9.200l2.4-2.400M7.3 4.600l1.2-1.200a2.8 2.8 0 0 1 4 4l-1.2 1.200M8.7 11.400l-1.2 1.200a2.8 2.8 0 0 1-4-4l1.2-1.2",
  inbox: "M2 9.500h3.500l1 2h3l1-2H14M2 9.500l2-6.500h8l2 6.500v4H2z",
  tool: "M9.6 6.4 3 13M13.4 4.200l-2 2-1.7-.1-.1-1.7 2-2a3.3 3.3 0 0 0-4.1 4.200l.9.900a3.3 3.3 0 0 0 5-3.300Z",
} as const;

export type IconName = keyof typeof paths;

export function Icon({ name, size = 16 }: { name: IconName; size?: number }) {
  return (
    <svg class="icon" viewBox="0 0 16 16" width={size} height={size} aria-hidden="true">
      <path d={paths[name]} />
    </svg>
  );
}
