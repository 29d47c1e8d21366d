import { get } from "node:http";

/**
 * Asks a program of this machine how it is.
 *
 * @param path `/live` or `/ready`.
 * @returns whether it answered with 200 within `patienceMs`.
 */
export function probe(port: number, path: string, patienceMs: number): Promise<boolean> {
  return new Promise((resolve) => {
    const request = get(
      { host: "127.0.0.1", port, path, agent: false, timeout: patienceMs },
      (response) => {
        response.resume();
        resolve(response.statusCode === 200);
      },
    );
    request.on("timeout", () => request.destroy());
    request.on("error", () => resolve(false));
  });
}
