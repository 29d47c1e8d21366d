import { Client } from "undici";

/**
 * Whether an upstream answers anything at all within `limitMs`, on a connection of its own. Our
 * programs have `/live`; of others a 404 is as good a sign of life.
 */
export async function answersProbe(origin: string, limitMs: number): Promise<boolean> {
  const client = new Client(origin, { connect: { timeout: limitMs } });
  try {
    const signal = AbortSignal.timeout(limitMs);
    await client.request({ path: "/live", method: "GET", signal });
    return true;
  } catch {
    // Why does not matter: the call that is given up for it says so.
    return false;
  } finally {
    await client.destroy();
  }
}
