import type { RankProfile } from '../run-state/rank-profile.ts';
import type { Timeline, TimelineEntry } from '../run-state/run-message.ts';

interface TraceEvent {
  readonly name: string;
  readonly ph: 'X' | 'M';
  readonly pid: number;
  readonly tid: number;
  /** In microseconds, as `dur` is. */
  readonly ts?: number;
  readonly dur?: number;
  readonly cat?: string;
  readonly args?: Readonly<Record<string, string | number>>;
}

/**
 * Writes timelines in the Chrome Trace Event format, which Perfetto and chrome://tracing read. Each rank is a thread. What
 * profiles have recorded is a second process, in which the kernels of a step stand one after the other.
 */
export function chromeTrace(
  timelines: readonly Timeline[],
  profiles: Iterable<RankProfile> = [],
): string {
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
        ...argsOf(event),
      })),
    ]),
    ...Array.from(profiles, kernelEvents).flat(),
  ];
  return JSON.stringify({ traceEvents, displayTimeUnit: 'ms' });
}

function argsOf({ detail, bytes, axis, ranks }: TimelineEntry): Pick<TraceEvent, 'args'> {
  const args = {
    ...(detail === undefined ? {} : { detail }),
    ...(bytes === undefined ? {} : { bytes }),
    ...(axis === undefined ? {} : { axis }),
    ...(ranks === undefined ? {} : { ranks }),
  };
  return Object.keys(args).length === 0 ? {} : { args };
}

/** What a rank computed in a step of its profile, by module, phase and operation, in the order of the time that it took. */
function kernelEvents({ rank, rows, steps, from, to }: RankProfile): readonly TraceEvent[] {
  let ts = 0;
  return [
    { name: 'process_name', ph: 'M', pid: 1, tid: 0, args: { name: 'kernels of a step' } },
    {
      name: 'thread_name',
      ph: 'M',
      pid: 1,
      tid: rank,
      args: { name: `rank ${rank}, mean of steps ${from} to ${to}` },
    },
    ...rows.map(({ op, module, phase, ms, count, flops, bytes }): TraceEvent => {
      const start = ts;
      const dur = (ms * 1000) / steps;
      ts += dur;
      return {
        name: op,
        ph: 'X',
        cat: 'kernel',
        pid: 1,
        tid: rank,
        ts: start,
        dur,
        args: { module, phase, calls: count / steps, flops: flops / steps, bytes: bytes / steps },
      };
    }),
  ];
}
