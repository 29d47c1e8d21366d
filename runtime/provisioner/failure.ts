/** Why an agent has no credentials, in a sentence for the agent's owner. */
export class ProvisioningError extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = "ProvisioningError";
  }
}

const SECRETS = /SCRAM-SHA-256\$[^\s';]+|#?\b[0-9a-f]{64}\b|(?<=:\/\/)[^@\s/]+(?=@)/g;

/** A text without what looks like a hash, a verifier or the user part of a URL. */
export function withoutSecrets(text: string): string {
  return text.replace(SECRETS, "…");
}

/**
 * Runs a step, and turns what it throws into a {@link ProvisioningError} that says where it failed.
 *
 * @param action What was to be done, e.g. `set up its database role`.
 */
export async function step<T>(action: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof ProvisioningError) throw error;
    throw new ProvisioningError(`The provisioner could not ${action}: ${describe(error)}.`, {
      cause: error,
    });
  }
}

const CACHE_AWAY = "the cache does not answer";

/** One line, without secrets and without a full stop. */
export function describe(error: unknown): string {
  if (error instanceof AggregateError && error.errors.length > 0) return describe(error.errors[0]);
  // ioredis speaks of its own options here, of which an agent's owner knows nothing.
  if (error instanceof Error && error.name === "MaxRetriesPerRequestError") return CACHE_AWAY;
  const text = error instanceof Error ? error.message : String(error);
  return withoutSecrets(text).replace(/\s+/g, " ").replace(/\.$/, "");
}
