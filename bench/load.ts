import { Pool } from "undici";

/** One kind of call, made again and again. */
export interface Call {
  origin: string;
  method: "GET" | "POST";
  path: string;
  headers: Record<string, string>;
  body?: string;
  /** What an answer must contain to count. */
  expect: string;
}

/** What a load came to. Latencies in ms, unsorted. */
export interface LoadResult {
  latencies: number[];
  seconds: number;
  errors: number;
}

/** Makes `count` calls, `concurrency` at a time: a closed loop on kept-alive connections. */
export async function load(call: Call, concurrency: number, count: number): Promise<LoadResult> {
  const pool = new Pool(call.origin, { connections: concurrency });
  const latencies: number[] = [];
  let left = count;
  let errors = 0;
  const client = async () => {
    while (left > 0) {
      left -= 1;
      const started = performance.now();
      const { statusCode, body } = await pool.request({
        method: call.method,
        path: call.path,
        headers: call.headers,
        body: call.body ?? null,
      });
      const text = await body.text();
      latencies.push(performance.now() - started);
      if (statusCode !== 200 || !text.includes(call.expect)) errors += 1;
    }
  };
  const started = performance.now();
  await Promise.all(Array.from({ length: concurrency }, client));
  const seconds = (performance.now() - started) / 1000;
  await pool.close();
  return { latencies, seconds, errors };
}

/** @param share 0.5 is the median. */
export function percentile(values: number[], share: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN;
}
