import { readFile } from "node:fs/promises";
import { Agent, type Dispatcher } from "undici";
import { z } from "zod";
import { UserError } from "../errors.ts";
import { readLines } from "./lines.ts";

/** How to reach the API server, and as whom. */
export interface ClusterAccess {
  server: URL;
  /** Holds the service account's token, which the kubelet replaces now and then. */
  tokenFile: string | undefined;
  /** Holds the certificate that the server's own must come from. */
  caFile: string | undefined;
}

/** A refusal of the API server. */
export class KubernetesError extends Error {
  readonly status: number;
  /** The server's word for it, e.g. `Expired` or `Conflict`. */
  readonly reason: string;

  constructor(status: number, reason: string, message: string) {
    super(message);
    this.name = "KubernetesError";
    this.status = status;
    this.reason = reason;
  }
}

/**
 * The few calls to the Kubernetes API that watching programs need. Not `@kubernetes/client-node`:
 * importing that costs an idle program 41 to 51 MB (docs/decisions/0004).
 */
export interface KubernetesClient {
  /** @throws KubernetesError for any answer but a 2xx one. */
  get(path: string, query: Record<string, string>, signal: AbortSignal): Promise<unknown>;
  /** Makes an object in the collection at a path. */
  create(path: string, object: object, signal: AbortSignal): Promise<unknown>;
  /** Replaces an object. A `resourceVersion` in it makes the server check it. */
  replace(path: string, object: object, signal: AbortSignal): Promise<unknown>;
  /** Sends a JSON merge patch (RFC 7396). A `resourceVersion` in it makes the server check it. */
  mergePatch(path: string, patch: object, signal: AbortSignal): Promise<unknown>;
  /**
   * The events of a watch as they come. Ends when the server ends it or has been silent for
   * `idleMs`, which a connection that died without a word is, too.
   */
  watch(
    path: string,
    query: Record<string, string>,
    idleMs: number,
    signal: AbortSignal,
  ): AsyncIterable<unknown>;
  close(): Promise<void>;
}

const CONNECT_TIMEOUT_MS = 5_000;
/** A list of many thousand objects takes the server a while. */
const ANSWER_TIMEOUT_MS = 30_000;
const JSON_TYPE = "application/json";
const MERGE_PATCH_TYPE = "application/merge-patch+json";

const statusDocument = z.object({
  reason: z.string().default("Unknown"),
  message: z.string().default("The API server gave no reason."),
});

/** @throws UserError where the certificate's file can't be read. */
export async function createKubernetesClient(access: ClusterAccess): Promise<KubernetesClient> {
  const ca = await readCertificate(access.caFile);
  const agent = new Agent({
    connect: { timeout: CONNECT_TIMEOUT_MS, ...(ca !== undefined && { ca }) },
    headersTimeout: ANSWER_TIMEOUT_MS,
    bodyTimeout: ANSWER_TIMEOUT_MS,
    allowH2: false,
  });

  async function call(
    options: Pick<Dispatcher.RequestOptions, "method" | "path" | "body" | "bodyTimeout"> & {
      contentType?: string;
      signal: AbortSignal;
    },
  ) {
    const { contentType, ...rest } = options;
    const answer = await agent.request({
      ...rest,
      origin: access.server.origin,
      headers: {
        accept: "application/json",
        ...(await authorization(access)),
        ...(contentType !== undefined && { "content-type": contentType }),
      },
    });
    if (answer.statusCode < 200 || answer.statusCode > 299) {
      throw asError(answer.statusCode, await answer.body.text());
    }
    return answer.body;
  }

  async function send(
    method: "POST" | "PUT" | "PATCH",
    path: string,
    contentType: string,
    object: object,
    signal: AbortSignal,
  ): Promise<unknown> {
    const body = await call({ method, path, body: JSON.stringify(object), contentType, signal });
    return body.json();
  }

  return {
    async get(path, query, signal) {
      const body = await call({ method: "GET", path: withQuery(path, query), signal });
      return body.json();
    },
    create: (path, object, signal) => send("POST", path, JSON_TYPE, object, signal),
    replace: (path, object, signal) => send("PUT", path, JSON_TYPE, object, signal),
    mergePatch: (path, patch, signal) => send("PATCH", path, MERGE_PATCH_TYPE, patch, signal),
    async *watch(path, query, idleMs, signal) {
      const body = await call({
        method: "GET",
        path: withQuery(path, { ...query, watch: "true", allowWatchBookmarks: "true" }),
        bodyTimeout: idleMs,
        signal,
      });
      try {
        for await (const line of readLines(body)) yield JSON.parse(line);
      } catch (error) {
        if (!isIdle(error)) throw error;
      }
    },
    close: () => agent.destroy(),
  };
}

async function readCertificate(path: string | undefined): Promise<string | undefined> {
  if (path === undefined) return undefined;
  try {
    return await readFile(path, "utf8");
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new UserError(
      "configuration",
      `The certificate of the Kubernetes API server can't be read: ${reason}.`,
      "Inside of a pod, let it mount its service account's token. Elsewhere, name the file in KUBERNETES_CA_FILE.",
      2,
    );
  }
}

/** Read for each call: calls are few, and a token that was replaced is used at once. */
async function authorization({ tokenFile }: ClusterAccess): Promise<Record<string, string>> {
  if (tokenFile === undefined) return {};
  const token = (await readFile(tokenFile, "utf8")).trim();
  return { authorization: `Bearer ${token}` };
}

function withQuery(path: string, query: Record<string, string>): string {
  const text = new URLSearchParams(query).toString();
  return text === "" ? path : `${path}?${text}`;
}

function asError(status: number, text: string): KubernetesError {
  const parsed = statusDocument.safeParse(parseJson(text));
  const { reason, message } = parsed.success ? parsed.data : statusDocument.parse({});
  return new KubernetesError(status, reason, message);
}

/** What stands between us and the server may answer with a page instead of a status. */
function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function isIdle(error: unknown): boolean {
  return error instanceof Error && "code" in error && error.code === "UND_ERR_BODY_TIMEOUT";
}
