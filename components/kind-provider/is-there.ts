import { access } from "node:fs/promises";

/** Whether there is a file or a folder of this path. */
export async function isThere(path: string): Promise<boolean> {
  try {
    await access(path);
    return true;
  } catch {
    // Not yet, or not any more.
    return false;
  }
}
