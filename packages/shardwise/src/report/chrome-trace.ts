import type { Timeline } from '../run-state/run-message.ts';

interface TraceEvent {
  readonly name: string;
  readonly ph: 'X' | 'M';
  readonly pid: number;
  readonly tid: number;
  /** In microseconds, as `dur` is. */
  readonly ts?: number;
  readonly dur?: number;
  readonly cat?: string;
  readonly args?: Readonly<Record<string, string>>;
}

/**
 * Writes timelines in the Chrome Trace Event format, which Perfetto and chrome://tracing read. Each rank is a thread.
 */
export function chromeTrace(timelines: readonly Timeline[]): string {
  const start = Math.min(...timelines.map(({ startMs }) => startMs));
  const microseconds = (ms: number): number => Math.round(ms * 1000);
  const ranks = [...new Set(timelines.map(({ rank }) => rank))].sort((a, b) => a - b);
  const traceEvents: TraceEvent[] = [
    { name: 'process_name', ph: 'M', pid: 0, tid: 0, args: { name: 'shardwise' } },
    ...ranks.map((rank): TraceEvent => ({
      name: 'thread_name',
      ph: 'M',
      pid: 0,
      tid: rank,
      args: { name: `rank ${rank}` },
    })),
    ...timelines.flatMap(({ rank, step, startMs, endMs, events }) => [
      {
        name: `step ${step}`,
        ph: 'X' as const,
        cat: 'step',
        pid: 0,
        tid: rank,
        ts: microseconds(startMs - start),
        dur: microseconds(endMs - startMs),
      },
      ...events.map((event): TraceEvent => ({
        name: event.name,
        ph: 'X',
        cat: event.category,
        pid: 0,
        tid: rank,
        ts: microseconds(event.startMs - start),
        dur: microseconds(event.durationMs),
        ...(event.detail === undefined ? {} : { args: { detail: event.detail } }),
      })),
    ]),
  ];
  return JSON.stringify({ traceEvents, displayTimeUnit: 'ms' });
}
