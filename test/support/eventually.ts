import { setTimeout as delay } from "node:timers/promises";

/**
 * Waits until a condition holds.
 *
 * @param what Says in the failure what was waited for.
 * @throws after `deadlineMs`.
 */
export async function eventually(
  what: string,
  condition: () => boolean | Promise<boolean>,
  deadlineMs = 10_000,
): Promise<void> {
  const deadline = Date.now() + deadlineMs;
  while (!(await condition())) {
    if (Date.now() > deadline) throw new Error(`Waited ${deadlineMs} ms in vain: ${what}.`);
    await delay(10);
  }
}
