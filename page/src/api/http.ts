// One place that talks HTTP: JSON in and out, errors as the server words them.

/** What the server refused, or why it could not be reached (status 0). */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    message: string,
  ) {
    super(message);
  }
}

export type Query = Record<string, string | number | boolean | null | undefined>;

/** A path of literal parts and values, which are percent-encoded. */
export function route(parts: TemplateStringsArray, ...values: string[]): string {
  return parts.reduce((text, part, index) => text + segment(values[index - 1] ?? "") + part);
}

function segment(value: string): string {
  // To a browser these are folders, encoded or not.
  if (value === "." || value === "..") {
    throw new ApiError(0, `A browser cannot ask for '${value}'. The command line can: milepost show.`);
  }
  return encodeURIComponent(value);
}

export function withQuery(path: string, query: Query = {}): string {
  const search = new URLSearchParams();
  for (const [key, value] of Object.entries(query)) {
    if (value !== undefined && value !== null && value !== "") search.set(key, String(value));
  }
  const text = search.toString();
  return (text ? `${path}?${text}` : path).replace(/^\//, "./");
}

export async function send(path: string, init: RequestInit = {}): Promise<Response> {
  let response: Response;
  try {
    response = await fetch(path, { credentials: "same-origin", ...init });
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new ApiError(0, "The server does not answer. Is `milepost ui` still running?");
  }
  if (response.ok) return response;
  throw new ApiError(response.status, await detail(response));
}

async function detail(response: Response): Promise<string> {
  if (response.status === 401 || response.status === 403) {
    return "This page is not signed in. Open the address that `milepost ui` printed, with its token.";
  }
  try {
    const body: unknown = await response.json();
    const text = (body as { detail?: unknown }).detail;
    return typeof text === "string" ? text : JSON.stringify(text ?? body);
  } catch {
    return `The server answered ${response.status}.`;
  }
}

export async function get<T>(path: string, query?: Query, signal?: AbortSignal): Promise<T> {
  const response = await send(withQuery(path, query), signal ? { signal } : {});
  return (await response.json()) as T;
}

export async function post<T>(path: string, body: unknown, signal?: AbortSignal): Promise<T> {
  const response = await send(withQuery(path), { ...asJson(body), ...(signal ? { signal } : {}) });
  return (await response.json()) as T;
}

export function asJson(body: unknown): RequestInit {
  return {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
  };
}
