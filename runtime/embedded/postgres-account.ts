import { execFile } from "node:child_process";
import { readFile, stat } from "node:fs/promises";
import { dirname } from "node:path";
import { promisify } from "node:util";
import { UserError } from "../common/errors.ts";

const run = promisify(execFile);

/** The account that PostgreSQL's processes run under, where that is not our own. */
export interface Account {
  uid: number;
  gid: number;
}

/** How a command is started so that it runs as PostgreSQL's account. */
export interface Launch {
  /** What goes before the command, e.g. `setpriv …`; empty where nothing is needed. */
  prefix: string[];
  /** For `spawn`: the account to switch to. Empty where `prefix` does it, or nothing has to. */
  account: Partial<Account>;
}

/** In the order of preference: PostgreSQL's own, or the one that owns nothing. */
const ACCOUNTS = ["postgres", "nobody"];
/** Linux capabilities that let a process enter any directory, the weaker one first. */
const CAPABILITIES = [
  { name: "dac_read_search", bit: 2n },
  { name: "dac_override", bit: 1n },
];

/**
 * PostgreSQL refuses to run as root. Where we are root, its processes run as an ordinary account:
 * the one that owns the data already, else `postgres`, else `nobody`.
 *
 * @returns undefined where we are an ordinary account ourselves.
 */
export async function postgresAccount(dataDirectory: string): Promise<Account | undefined> {
  if (process.getuid?.() !== 0) return undefined;
  const owner = await stat(dataDirectory).catch(() => undefined);
  if (owner !== undefined && owner.uid !== 0) return { uid: owner.uid, gid: owner.gid };
  for (const name of ACCOUNTS) {
    const account = await lookUp(name);
    if (account !== undefined) return account;
  }
  throw new UserError(
    "no_account",
    "PostgreSQL refuses to run as root, and this machine has neither an account postgres nor nobody.",
    "Start the platform as an ordinary user.",
  );
}

async function lookUp(name: string): Promise<Account | undefined> {
  try {
    const [uid, gid] = await Promise.all([run("id", ["-u", name]), run("id", ["-g", name])]);
    return { uid: Number(uid.stdout), gid: Number(gid.stdout) };
  } catch {
    // `id` fails where there is no such account; the caller tries the next one.
    return undefined;
  }
}

/**
 * How to start PostgreSQL as `account`. A checkout or data directory that the account can't enter
 * (one under /root, say) needs a capability for entering directories; `setpriv` keeps it, and the
 * secure bit makes `access(2)` honour it, by which PostgreSQL checks its own binary.
 *
 * @throws UserError where that is not possible on this machine.
 */
export async function launchAs(account: Account | undefined, paths: string[]): Promise<Launch> {
  if (account === undefined) return { prefix: [], account: {} };
  const closed = await firstClosedDirectory(paths, account);
  if (closed === undefined) return { prefix: [], account };
  const prefix = enteringPrefix(account, await heldCapability());
  if (prefix !== undefined && (await works(prefix))) return { prefix, account: {} };
  throw new UserError(
    "directory_closed",
    `PostgreSQL refuses to run as root, and the account it would run under can't enter ${closed}.`,
    "Start the platform as an ordinary user, or move the checkout (or the data, with --data) to a directory that everyone may enter.",
  );
}

function enteringPrefix({ uid, gid }: Account, capability: string | undefined) {
  if (capability === undefined) return undefined;
  const grant = ["--inh-caps", `+${capability}`, "--ambient-caps", `+${capability}`];
  const who = ["--reuid", String(uid), "--regid", String(gid), "--clear-groups"];
  return ["setpriv", ...who, ...grant, "--securebits", "+no_setuid_fixup", "--"];
}

async function firstClosedDirectory(paths: string[], account: Account) {
  for (const path of paths) {
    for (let directory = path; directory !== dirname(directory); directory = dirname(directory)) {
      const { uid, gid, mode } = await stat(directory);
      const shift = uid === account.uid ? 6 : gid === account.gid ? 3 : 0;
      if (((mode >> shift) & 0o1) === 0) return directory;
    }
  }
  return undefined;
}

async function heldCapability(): Promise<string | undefined> {
  if (process.platform !== "linux") return undefined;
  const status = await readFile("/proc/self/status", "utf8");
  const held = BigInt(`0x${status.match(/^CapPrm:\s*([0-9a-f]+)$/m)?.[1] ?? "0"}`);
  return CAPABILITIES.find(({ bit }) => (held >> bit) & 1n)?.name;
}

/** There are smaller programs of the name `setpriv` that know none of these options. */
async function works([command = "", ...options]: string[]): Promise<boolean> {
  return run(command, [...options, "true"]).then(
    () => true,
    () => false,
  );
}
