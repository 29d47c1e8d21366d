import type { IncomingHttpHeaders } from "node:http";
import { setTimeout as delay } from "node:timers/promises";
import { HttpError } from "../common/errors.ts";
import type { Logger } from "../common/logging.ts";
import type { CallLife } from "./call-life.ts";
import type { Endpoint, Provider } from "./providers/provider.ts";
import type { UpstreamAnswer, UpstreamCall } from "./transport.ts";

/** An answer whose first bytes are here: from now on nothing is tried again. */
export interface OpenAnswer {
  status: number;
  headers: IncomingHttpHeaders;
  /** The first piece of the body, or the end of an empty one. */
  first: IteratorResult<Buffer, unknown>;
  rest: AsyncIterator<Buffer, unknown>;
}

export interface UpstreamOptions {
  send(provider: Provider, call: UpstreamCall): Promise<UpstreamAnswer>;
  /** The pause before the first retry, in ms; the second is four times as long. Jittered. */
  retryPauseMs: number;
  logger: Logger;
}

/** One call for a provider, over all its tries. */
export interface OpenCall {
  provider: Provider;
  endpoint: Endpoint;
  body: Buffer;
  life: CallLife;
  requestId: string;
}

export interface Upstream {
  /**
   * Gets an answer to its first byte. Only what has not reached that point is tried again, twice at
   * most, and only within the call's deadline.
   *
   * @returns an answer of status 2xx, or a refusal (4xx) that is meant for the client.
   * @throws HttpError 502 or 504. Its message never holds what the provider said.
   */
  open(call: OpenCall): Promise<OpenAnswer>;
}

const MAX_RETRIES = 2;
/** A provider that asks for a longer pause is taken at its word: the client is told to wait. */
const MAX_PAUSE_MS = 20_000;
/** 529 is what Anthropic says when it is overloaded. */
const PASSING_STATUSES = new Set([502, 503, 504, 529]);
const PASSING_ERRORS = new Set([
  "EAI_AGAIN",
  "ECONNREFUSED",
  "ECONNRESET",
  "EHOSTUNREACH",
  "ENETUNREACH",
  "ENOTFOUND",
  "EPIPE",
  "ETIMEDOUT",
  "UND_ERR_CONNECT_TIMEOUT",
  "UND_ERR_SOCKET",
]);

type Outcome = { answer: OpenAnswer } | { error: unknown };

export function createUpstream({ send, retryPauseMs, logger }: UpstreamOptions): Upstream {
  async function tryOnce({ provider, endpoint, body, life }: OpenCall): Promise<Outcome> {
    try {
      const {
        status,
        headers,
        body: pieces,
      } = await send(provider, {
        endpoint,
        body,
        signal: life.signal,
      });
      const rest = pieces[Symbol.asyncIterator]();
      return { answer: { status, headers, first: await rest.next(), rest } };
    } catch (error) {
      return { error };
    }
  }

  return {
    async open(call) {
      const { provider, life, requestId } = call;
      for (let retries = 0; ; retries++) {
        const outcome = await tryOnce(call);
        throwIfGivenUp(life, provider);
        const pauseMs = pauseBeforeRetry(outcome, retryPauseMs * 4 ** retries);
        const reason = reasonOf(outcome);
        if (pauseMs === undefined || retries === MAX_RETRIES || pauseMs >= life.remainingMs()) {
          if (reason !== undefined) {
            logger.warn({ request_id: requestId, provider: provider.name, reason }, "call failed");
          }
          return accept(outcome, provider);
        }
        logger.warn({ request_id: requestId, provider: provider.name, reason }, "trying again");
        if ("answer" in outcome) await outcome.answer.rest.return?.();
        await delay(pauseMs, undefined, { signal: life.signal }).catch(() => {
          throwIfGivenUp(life, provider);
        });
      }
    },
  };
}

/** What a client gets that waited until the deadline, or longer than a connection may take. */
export function timedOut({ name }: Provider): HttpError {
  return new HttpError(504, "upstream_timeout", `The provider ${name} did not answer in time.`);
}

/** The caller looks at the call's life, too: for a client that has left it logs 499. */
function throwIfGivenUp(life: CallLife, provider: Provider): void {
  if (life.givenUp() !== undefined) throw timedOut(provider);
}

/** The pause in ms, or undefined where trying again would not help. */
function pauseBeforeRetry(outcome: Outcome, backoffMs: number): number | undefined {
  const jitteredMs = backoffMs * (0.5 + Math.random() / 2);
  if ("error" in outcome) return PASSING_ERRORS.has(codeOf(outcome.error)) ? jitteredMs : undefined;
  const { status, headers } = outcome.answer;
  const askedMs = retryAfterMs(headers);
  if (askedMs !== undefined && askedMs > MAX_PAUSE_MS) return undefined;
  if (PASSING_STATUSES.has(status)) return Math.max(askedMs ?? 0, jitteredMs);
  // Without a time to wait for, a 429 is mostly a spent quota.
  if (status === 429 && askedMs !== undefined) return askedMs + jitteredMs;
  return undefined;
}

/** `retry-after` (seconds or a date) or the finer `retry-after-ms` that OpenAI sends. */
export function retryAfterMs(headers: IncomingHttpHeaders): number | undefined {
  const fine = Number.parseFloat(String(headers["retry-after-ms"]));
  if (fine >= 0) return fine;
  const value = headers["retry-after"];
  if (value === undefined) return undefined;
  if (/^\d+(\.\d+)?$/.test(value)) return Number(value) * 1000;
  const date = Date.parse(value);
  return Number.isNaN(date) ? undefined : Math.max(0, date - Date.now());
}

/** What went wrong, for the log; undefined for a success and for a refusal meant for the client. */
function reasonOf(outcome: Outcome): string | undefined {
  if ("error" in outcome) return codeOf(outcome.error);
  const { status } = outcome.answer;
  return status < 300 ? undefined : `status ${status}`;
}

function codeOf(error: unknown): string {
  if (!(error instanceof Error)) return "unknown";
  return "code" in error ? String(error.code) : error.name;
}

function accept(outcome: Outcome, provider: Provider): OpenAnswer {
  const { name } = provider;
  if ("error" in outcome) {
    if (/TIMEOUT|ETIMEDOUT/.test(codeOf(outcome.error))) throw timedOut(provider);
    throw new HttpError(502, "upstream_unreachable", `The provider ${name} can't be reached.`, {
      cause: outcome.error,
    });
  }
  const { answer } = outcome;
  const refused = answer.status >= 400 && answer.status < 500;
  const ours = answer.status === 401 || answer.status === 403 || answer.status === 407;
  if (answer.status < 300 || (refused && !ours)) return answer;
  void answer.rest.return?.();
  if (ours) {
    throw new HttpError(
      502,
      "upstream_auth",
      `The provider ${name} refused the platform's credentials. Ask whoever runs the platform.`,
      { headers: { "x-should-retry": "false" } },
    );
  }
  const retryAfter = answer.headers["retry-after"];
  throw new HttpError(502, "upstream_error", `The provider ${name} answered ${answer.status}.`, {
    headers: retryAfter === undefined ? {} : { "retry-after": retryAfter },
  });
}
