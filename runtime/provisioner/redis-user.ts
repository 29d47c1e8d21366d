import type { Redis } from "ioredis";

/** Redis users of agents. */
export interface RedisUsers {
  /**
   * Brings an agent's user to what it should be: these passwords, this prefix, nothing else.
   *
   * @param passwordHashes SHA-256, hexadecimal.
   */
  ensure(agent: string, prefix: string, passwordHashes: readonly string[]): Promise<void>;
  /** Takes the user away and ends its connections. */
  remove(agent: string): Promise<void>;
  /** Removes the keys under a prefix, before somebody else gets it. */
  clear(prefix: string): Promise<void>;
}

/**
 * What a job queue, streams and pub/sub need, on keys that are named. Left out on top of whole
 * categories: what lists or counts keys and channels of everybody (SCAN, RANDOMKEY, DBSIZE, PUBSUB),
 * and what of CLIENT reaches beyond the connection itself (TRACKING in broadcast mode names any key
 * that changes; SETINFO is too new for Redis 7.0, and clients do without). Scripts can hold up the
 * server for all, so there are none.
 */
const COMMANDS = [
  ..."-@all +@keyspace +@string +@hash +@list +@set +@sortedset +@stream".split(" "),
  ..."+@pubsub +@transaction +@blocking +@connection".split(" "),
  ..."-@admin -@dangerous -@scripting -scan -randomkey -dbsize -pubsub -client".split(" "),
  ..."+client|id +client|getname +client|setname".split(" "),
];
const SCAN_COUNT = 500;

/**
 * @param redis A user that may run ACL SETUSER and DELUSER, SCAN, and UNLINK under `aegra:`.
 */
export function createRedisUsers(redis: Redis): RedisUsers {
  return {
    async ensure(agent, prefix, passwordHashes) {
      const passwords = passwordHashes.map((hash) => `#${hash}`);
      // The server swaps the whole rule set at once, so connections that keep their rights live on.
      await redis.acl(
        "SETUSER",
        agent,
        ...["reset", "on", ...passwords, `~${prefix}:*`, `&${prefix}:*`, ...COMMANDS],
      );
    },
    async remove(agent) {
      await redis.acl("DELUSER", agent);
    },
    async clear(prefix) {
      let cursor = "0";
      do {
        const [next, keys] = await redis.scan(cursor, "MATCH", `${prefix}:*`, "COUNT", SCAN_COUNT);
        if (keys.length > 0) await redis.unlink(...keys);
        cursor = next;
      } while (cursor !== "0");
    },
  };
}
