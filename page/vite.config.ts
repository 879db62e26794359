import { defineConfig } from "vite";

// `MILEPOST_UI` names a running `milepost ui` for `npm run dev`.
const server = process.env["MILEPOST_UI"] ?? "http://127.0.0.1:8765";

export default defineConfig({
  base: "./",
  // The page is one script and one style sheet, so that the content policy can name 'self' alone.
  build: {
    outDir: "../src/milepost/server/_page",
    emptyOutDir: true,
    target: "es2022",
    cssTarget: ["chrome123", "firefox120", "safari17.5"],
    assetsInlineLimit: 0,
    modulePreload: false,
    reportCompressedSize: false,
    license: { fileName: "LICENSES.txt" },
  },
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
  server: {
    proxy: Object.fromEntries(
      ["/milepost", "/threads", "/store", "/assistants", "/info", "/ok"].map((path) => [
        path,
        { target: server, changeOrigin: true },
      ]),
    ),
  },
});
