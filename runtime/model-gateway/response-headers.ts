import type { IncomingHttpHeaders } from "node:http";

/** What a provider may tell a client beside the body. Anything else may hold account details. */
const PASSED_ON = [
  "content-type",
  "openai-processing-ms",
  "openai-version",
  "retry-after",
  "retry-after-ms",
];

/** Under this name, since `x-request-id` is ours: the one that logs, usage and traces know. */
const PROVIDER_REQUEST_ID = "x-provider-request-id";

/** The headers of an answer, without any that holds one of the platform's keys. */
export function responseHeaders(
  headers: IncomingHttpHeaders,
  secrets: readonly string[],
  requestId: string,
): Record<string, string> {
  const passed: Record<string, string> = {};
  const pass = (name: string, value: string | string[] | undefined) => {
    const text = Array.isArray(value) ? value.join(", ") : value;
    if (text === undefined || secrets.some((secret) => text.includes(secret))) return;
    passed[name] = text;
  };
  for (const name of PASSED_ON) pass(name, headers[name]);
  pass(PROVIDER_REQUEST_ID, headers["x-request-id"]);
  passed["x-request-id"] = requestId;
  return passed;
}
