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

/** The process in which the kernels of a step stand. */
const KERNELS = 1;
/** The first process of messages. */
const MESSAGES = 2;

/**
 * Writes timelines in the Chrome Trace Event format, which Perfetto and chrome://tracing read. Each rank is a thread. Events
 * of a thread must lie within each other or apart, and Perfetto drops those that do not. So messages, which ranks send
 * while they compute, are on the thread of the same number of another process. What profiles have recorded is a process of
 * its own, in which the kernels of a step stand one after the other.
 */
export function chromeTrace(
  timelines: readonly Timeline[],
  profiles: Iterable<RankProfile> = [],
): string {
  const start = Math.min(...timelines.map(({ startMs }) => startMs));
  const ranks = [...new Set(timelines.map(({ rank }) => rank))].sort((a, b) => a - b);
  const spans = timelines.flatMap(({ rank, step, startMs, endMs, events }) => [
    spanOf({ name: `step ${step}`, cat: 'step', tid: rank }, startMs - start, endMs - start),
    ...events.map((event) => {
      const { name, category: cat, startMs: from, durationMs } = event;
      const named = { name, cat, tid: rank, ...argsOf(event) };
      return spanOf(named, from - start, from + durationMs - start);
    }),
  ]);
  const processes = processesOf(spans);
  const pids = [...new Set([0, ...processes.values()])].toSorted((a, b) => a - b);
  const traceEvents: TraceEvent[] = [
    ...pids.flatMap((pid) => namesOf(pid, ranks)),
    ...spans.map((span): TraceEvent => ({ ...span, ph: 'X', pid: processes.get(span) ?? 0 })),
    ...Array.from(profiles, kernelEvents).flat(),
  ];
  return JSON.stringify({ traceEvents, displayTimeUnit: 'ms' });
}

function namesOf(pid: number, ranks: readonly number[]): readonly TraceEvent[] {
  const name = pid === 0 ? 'shardwise' : 'messages';
  return [
    { name: 'process_name', ph: 'M', pid, tid: 0, args: { name } },
    ...ranks.map((rank): TraceEvent => ({
      name: 'thread_name',
      ph: 'M',
      pid,
      tid: rank,
      args: { name: `rank ${rank}` },
    })),
  ];
}

/** An event with a duration, in whole microseconds. */
interface Span extends Pick<TraceEvent, 'name' | 'cat' | 'tid' | 'args'> {
  readonly ts: number;
  readonly dur: number;
}

/** Both ends are rounded, and not the duration, so that an event that begins where another one ends still does. */
function spanOf(
  named: Pick<TraceEvent, 'name' | 'cat' | 'tid' | 'args'>,
  startMs: number,
  endMs: number,
): Span {
  const ts = Math.round(startMs * 1000);
  return { ...named, ts, dur: Math.round(endMs * 1000) - ts };
}

/** Chooses a process for each span: the first of its kind in which it overlaps no span of its thread in part. */
function processesOf(spans: readonly Span[]): ReadonlyMap<Span, number> {
  const processes = new Map<Span, number>();
  for (const own of Map.groupBy(spans, ({ tid }) => tid).values()) {
    /** The ends of the spans that are open in each process, the innermost last. */
    const open = new Map<number, number[]>();
    for (const span of own.toSorted((a, b) => a.ts - b.ts || b.dur - a.dur)) {
      let pid = span.cat === 'collective' || span.cat === 'transfer' ? MESSAGES : 0;
      while (!fits(span, open.get(pid) ?? [])) pid = pid === 0 ? MESSAGES : pid + 1;
      const ends = (open.get(pid) ?? []).filter((end) => end > span.ts);
      open.set(pid, [...ends, span.ts + span.dur]);
      processes.set(span, pid);
    }
  }
  return processes;
}

function fits({ ts, dur }: Span, ends: readonly number[]): boolean {
  return ends.every((end) => end <= ts || end >= ts + dur);
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
    { name: 'process_name', ph: 'M', pid: KERNELS, tid: 0, args: { name: 'kernels of a step' } },
    {
      name: 'thread_name',
      ph: 'M',
      pid: KERNELS,
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
        pid: KERNELS,
        tid: rank,
        ts: start,
        dur,
        args: { module, phase, calls: count / steps, flops: flops / steps, bytes: bytes / steps },
      };
    }),
  ];
}
