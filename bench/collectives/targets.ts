import type { OperationName } from './job.ts';
import { formatBytes, formatSeconds, units } from './format.ts';
import type { CaseTimes, Times } from './measure.ts';
import type { TransportName } from './options.ts';

/** A target of a transport. The medians of the rounds count, and the best rounds are reported too. */
export interface Target {
  readonly what: string;
  readonly asked: string;
  readonly measured: string;
  readonly ofBest: string;
  readonly isMet: boolean;
}

const { KiB: KIB, MiB: MIB } = units;

/** Returns the targets whose cases were measured. */
export function targetsOf(cases: readonly CaseTimes[]): readonly Target[] {
  const of = {
    median: goalsOf(cases, ({ median }) => median),
    best: goalsOf(cases, ({ best }) => best),
  };
  return of.median.flatMap((goal, index) => {
    if (Number.isNaN(goal.value)) return [];
    const { what, limit, format, isAtMost } = goal;
    const best = of.best[index]?.value ?? Number.NaN;
    return {
      what,
      asked: `at ${isAtMost ? 'most' : 'least'} ${format(limit)}`,
      measured: format(goal.value),
      ofBest: format(best),
      isMet: isAtMost ? goal.value <= limit : goal.value >= limit,
    };
  });
}

/** A figure and its bound. The figure is NaN if it was not measured. */
interface Goal {
  readonly what: string;
  readonly value: number;
  readonly limit: number;
  readonly isAtMost: boolean;
  readonly format: (value: number) => string;
}

function goalsOf(cases: readonly CaseTimes[], figure: (times: Times) => number): readonly Goal[] {
  const time = (name: string, operation: OperationName, bytes: number, world = 2): number => {
    const found = cases.find(
      (one) => one.operation === operation && one.bytes === bytes && one.world === world,
    );
    const times = found?.times.get(name);
    return times === undefined ? Number.NaN : figure(times);
  };
  const within = (
    name: TransportName,
    operation: OperationName,
    bytes: number,
    limit: number,
  ): Goal => ({
    what: `${name}, ${operation}${bytes === 0 ? '' : ` ${formatBytes(bytes)}`}`,
    value: time(name, operation, bytes),
    limit,
    isAtMost: true,
    format: formatSeconds,
  });
  const faster = (name: TransportName, than: string, limit: number, bytes = 64 * MIB): Goal => ({
    what: `${name}, allReduce ${formatBytes(bytes)}, times the bandwidth of ${than}`,
    value: time(than, 'allReduce', bytes) / time(name, 'allReduce', bytes),
    limit,
    isAtMost: false,
    format: formatRatio,
  });
  const halves = (name: TransportName): Goal => ({
    what: `${name}, reduceScatter + allGather over allReduce, 64 MiB`,
    value:
      (time(name, 'reduceScatter', 64 * MIB) + time(name, 'allGather', 64 * MIB)) /
      time(name, 'allReduce', 64 * MIB),
    limit: 1.1,
    isAtMost: true,
    format: formatRatio,
  });
  const oversubscribed = (name: TransportName): Goal => {
    const ratios = cases
      .filter(({ world }) => world === 4)
      .map(({ operation, bytes }) => time(name, operation, bytes, 4) / time(name, operation, bytes))
      .filter((ratio) => !Number.isNaN(ratio));
    return {
      what: `${name}, time of 4 ranks over that of 2, the worst`,
      value: ratios.length === 0 ? Number.NaN : Math.max(...ratios),
      limit: 5,
      isAtMost: true,
      format: formatRatio,
    };
  };
  return [
    ...(['threads', 'shm'] as const).flatMap((name) => [
      faster(name, 'openMpi', 5),
      faster(name, 'gloo', 8),
      faster(name, 'memoryLimit', 0.8),
      within(name, 'allReduce', MIB, 25e-6),
      within(name, 'barrier', 0, 0.5e-6),
      halves(name),
      oversubscribed(name),
    ]),
    faster('tcp', 'gloo', 1.3),
    within('tcp', 'allReduce', KIB, 60e-6),
    within('tcp', 'allReduce', MIB, 0.25e-3),
    halves('tcp'),
    oversubscribed('tcp'),
    faster('mpi', 'openMpi', 1 / 1.1, MIB),
    faster('mpi', 'openMpi', 1 / 1.1),
  ];
}

function formatRatio(value: number): string {
  return value.toFixed(2);
}
