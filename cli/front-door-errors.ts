import { type Dispatcher, errors } from "undici";
import { z } from "zod";
import { UserError } from "../runtime/common/errors.ts";

const HINTS: Record<number, string> = {
  401: "Set AGENTCTL_TOKEN to a valid token, or keep one in the environment.",
  403: "The token is valid but may not do this. Ask who gave it to you.",
  404: "Is the agent deployed there? agentctl env list shows which environment is selected.",
  409: "Another run is busy on this thread. Wait for it, or leave --thread out.",
  429: "Wait a little, or ask for a larger budget.",
};

/** The bodies of the platform's errors, Agent Protocol's or OpenAI's. */
const errorBody = z.union([
  z.looseObject({ message: z.string() }).transform(({ message }) => message),
  z
    .looseObject({ error: z.looseObject({ message: z.string() }) })
    .transform(({ error }) => error.message),
]);

/** The platform said no: its own words. */
export async function refused(
  { statusCode, headers, body }: Dispatcher.ResponseData,
  agentsHost: URL,
): Promise<UserError> {
  const text = await body.text();
  if (statusCode >= 300 && statusCode < 400) {
    return new UserError(
      "redirected",
      `${agentsHost.origin} sends calls on to ${headers.location}.`,
      "Tokens do not follow. Use that address with --agents-host, if it is the right one.",
    );
  }
  const said = parsed(text) ?? `${agentsHost.origin} answered with status ${statusCode}.`;
  const hint = HINTS[statusCode] ?? `It was status ${statusCode} from ${agentsHost.origin}.`;
  return new UserError("refused", said, hint);
}

/** Something answers there, but not the platform. */
export function wrongServer(agentsHost: URL): UserError {
  return new UserError(
    "wrong_server",
    `What answers at ${agentsHost.origin} is no agent front door.`,
    "Check the address: agentctl env list shows it.",
  );
}

/** Nothing answers, or it stopped in the middle. @returns the error itself where it is a bug. */
export function unreachable(error: unknown, agentsHost: URL): unknown {
  const code = error instanceof Error && "code" in error ? String(error.code) : "";
  if (!(error instanceof errors.UndiciError) && !SYSTEM_CODES.has(code)) return error;
  const isBroken = code === "UND_ERR_SOCKET" || code === "ECONNRESET" || code === "EPIPE";
  return new UserError(
    "unreachable",
    isBroken
      ? `The connection to ${agentsHost.origin} broke off.`
      : `No platform answers at ${agentsHost.origin} (${code}).`,
    "Is it running? ./install.sh starts it on this machine; agentctl env list shows the address.",
  );
}

const SYSTEM_CODES = new Set([
  "ECONNREFUSED",
  "ECONNRESET",
  "EHOSTUNREACH",
  "ENETUNREACH",
  "ENOTFOUND",
  "EAI_AGAIN",
  "EPIPE",
  "ETIMEDOUT",
]);

function parsed(text: string): string | undefined {
  try {
    return errorBody.safeParse(JSON.parse(text)).data;
  } catch {
    // Not JSON: a proxy's page, which says less than the status does.
    return undefined;
  }
}
