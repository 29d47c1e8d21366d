/**
 * Whose data a call may touch: one tenant's, in one graph. Part of every key and every query.
 */
export interface Scope {
  tenant: string;
  graphId: string;
}

/** The key under which the checkpointer's tables file a thread: they know no tenant. */
export function checkpointKey(scope: Scope, threadId: string): string {
  return `${scope.tenant}/${scope.graphId}/${threadId}`;
}
