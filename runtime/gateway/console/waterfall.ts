import type { TraceSpan } from "./trace-store.ts";

/** A span where a waterfall draws it. */
export interface WaterfallRow {
  span: TraceSpan;
  /** How deep it is nested: 0 for a root. */
  depth: number;
  /** Where its bar begins and how wide it is, in percent of the trace. */
  left: number;
  width: number;
}

/**
 * Nests spans under their parents, each level in order of start.
 *
 * A span whose parent isn't there (not yet, or never) stands as a root. So does one of a ring of
 * spans that name each other as parents: whatever spans say, each is drawn once.
 */
export function layOut(spans: readonly TraceSpan[]): WaterfallRow[] {
  const ids = new Set(spans.map((span) => span.spanId));
  const roots: TraceSpan[] = [];
  const children = new Map<string, TraceSpan[]>();
  for (const span of spans) {
    const { parentSpanId } = span;
    if (parentSpanId === null || !ids.has(parentSpanId)) roots.push(span);
    else children.set(parentSpanId, [...(children.get(parentSpanId) ?? []), span]);
  }
  const endUs = Math.max(1, ...spans.map((span) => span.offsetUs + span.durationUs));
  const rows: WaterfallRow[] = [];
  const drawn = new Set<string>();
  const draw = (top: TraceSpan) => {
    // A stack of its own: a chain of a thousand spans must not be a chain of a thousand calls.
    const open = [{ span: top, depth: 0 }];
    for (let next = open.pop(); next !== undefined; next = open.pop()) {
      const { span, depth } = next;
      if (drawn.has(span.spanId)) continue;
      drawn.add(span.spanId);
      const left = (span.offsetUs / endUs) * 100;
      rows.push({ span, depth, left, width: (span.durationUs / endUs) * 100 });
      for (const child of (children.get(span.spanId) ?? []).toReversed()) {
        open.push({ span: child, depth: depth + 1 });
      }
    }
  };
  for (const root of roots) draw(root);
  for (const span of spans) if (!drawn.has(span.spanId)) draw(span);
  return rows;
}
