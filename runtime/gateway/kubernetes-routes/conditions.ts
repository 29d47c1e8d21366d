import type { Condition, Verdict } from "./resources.ts";

/** A condition as we would have it; when it last changed follows from what was there before. */
export type DesiredCondition = Omit<Condition, "lastTransitionTime">;

export function conditionOf(
  type: string,
  verdict: Verdict,
  observedGeneration: number,
): DesiredCondition {
  const { ok, reason, message } = verdict;
  return { type, status: ok ? "True" : "False", reason, message, observedGeneration };
}

/**
 * The conditions to write: ours in place of what was there, others' types as they are. The time of
 * transition moves only where the status does.
 */
export function mergeConditions(
  previous: readonly Condition[],
  desired: readonly DesiredCondition[],
  now: string,
): Condition[] {
  const ours = new Set(desired.map(({ type }) => type));
  const kept = previous.filter(({ type }) => !ours.has(type));
  const merged = desired.map((condition): Condition => {
    const before = previous.find(({ type }) => type === condition.type);
    const isStill = before !== undefined && before.status === condition.status;
    return { ...condition, lastTransitionTime: isStill ? before.lastTransitionTime : now };
  });
  return [...kept, ...merged];
}

/** True where nothing but the order of conditions differs. */
export function sameConditions(one: readonly Condition[], other: readonly Condition[]): boolean {
  return one.length === other.length && one.every((condition) => isAmong(condition, other));
}

function isAmong(condition: Condition, others: readonly Condition[]): boolean {
  const other = others.find(({ type }) => type === condition.type);
  return (
    other !== undefined &&
    other.status === condition.status &&
    other.reason === condition.reason &&
    other.message === condition.message &&
    other.observedGeneration === condition.observedGeneration &&
    other.lastTransitionTime === condition.lastTransitionTime
  );
}
