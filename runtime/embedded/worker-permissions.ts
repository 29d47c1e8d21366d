import { existsSync, realpathSync } from "node:fs";
import { dirname, join } from "node:path";

/**
 * SIGUSR1 opens Node's debugger, and the permission model does not keep code from sending signals:
 * an agent could take over any program of its account that lacks this flag.
 */
export const NO_DEBUGGER_BY_SIGNAL = "--disable-sigusr1";

/**
 * Node's flags that confine a process which runs agents: it may read the code that it needs and
 * nothing else; it may not write, start processes or threads, or load native code. It keeps the
 * network. Node calls this a seat belt for trusted code, not a sandbox, and so do we.
 *
 * @param checkout The platform's own directory, without symbolic links.
 * @param agentsDirectory Where the declarations and graphs are, without symbolic links.
 * @param files More files that it may read.
 */
export function confinement(
  checkout: string,
  agentsDirectory: string,
  files: readonly string[] = [],
): string[] {
  const readable = [
    join(checkout, "node_modules"),
    join(checkout, "package.json"),
    join(checkout, "runtime", "common"),
    join(checkout, "runtime", "worker"),
    agentsDirectory,
    ...librariesAbove(agentsDirectory),
    ...files,
  ];
  return [
    "--permission",
    NO_DEBUGGER_BY_SIGNAL,
    // SQLite opens files without asking the permission model.
    "--no-experimental-sqlite",
    ...allowed(readable).map((path) => `--allow-fs-read=${path}`),
  ];
}

/** A linked directory is needed by both of its names: the link is found, the target is loaded. */
function allowed(paths: string[]): string[] {
  return [...new Set(paths.flatMap((path) => [path, realpathSync(path)]))];
}

/** Where Node looks for an agent's imports, and how it learns a file's module kind. */
function librariesAbove(directory: string): string[] {
  const found: string[] = [];
  for (let at = directory; at !== dirname(at); at = dirname(at)) {
    found.push(join(at, "node_modules"), join(at, "package.json"));
  }
  return found.filter((path) => existsSync(path));
}
