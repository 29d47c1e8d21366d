/**
 * What `work` comes to, unless the signal aborts before: so that nobody waits for code that does not
 * listen to it. The work itself goes on, and what it comes to then is forgotten.
 *
 * @throws the signal's reason, or whatever `work` throws.
 */
export async function orAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  const { promise: aborted, reject } = Promise.withResolvers<never>();
  const abort = () => reject(signal.reason);
  signal.addEventListener("abort", abort, { once: true });
  if (signal.aborted) abort();
  try {
    return await Promise.race([work, aborted]);
  } finally {
    signal.removeEventListener("abort", abort);
  }
}
