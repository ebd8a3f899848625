import { formatBytes, formatMilliseconds } from '../text/format.ts';
import { percent } from './advice.ts';
import {
  limitOf,
  modulesOf,
  moduleTree,
  operations,
  type ProfileSummary,
  sumOf,
} from './summarize.ts';

/** A table of texts. Its first `names` columns are names, which stand at the left. */
export interface ProfileTable {
  readonly titles: readonly string[];
  readonly names: number;
  readonly rows: readonly (readonly string[])[];
}

type Columns<T> = readonly (readonly [title: string, text: (row: T) => string])[];

function tableOf<T>(rows: readonly T[], names: number, columns: Columns<T>): ProfileTable {
  return {
    titles: columns.map(([title]) => title),
    names,
    rows: rows.map((row) => columns.map(([, text]) => text(row))),
  };
}

/** The operations of one step. The last column says what bounds them. */
export function operationTable({ rows, stepMs }: ProfileSummary): ProfileTable {
  return tableOf(operations(rows), 2, [
    ['operation', ({ op }) => op],
    ['phase', ({ phase }) => phase],
    ['count', ({ count }) => amount(count)],
    ['time', ({ ms }) => timeText(ms)],
    ['share', ({ ms }) => percent(ms / stepMs)],
    ['GFLOP', ({ flops }) => amount(flops / 1e9)],
    ['bytes', ({ bytes }) => formatBytes(bytes)],
    ['FLOP/byte', ({ flops, bytes }) => amount(flops / bytes)],
    ['GFLOP/s', ({ flops, ms }) => amount(flops / ms / 1e6)],
    ['GB/s', ({ bytes, ms }) => amount(bytes / ms / 1e6)],
    ['of roof', ({ roofMs, ms }) => (roofMs === 0 ? '' : percent(roofMs / ms))],
    ['limit', (row) => (limitOf(row) === 'unknown' ? '' : limitOf(row))],
  ]);
}

/** The modules of one step, each with all modules in it. */
export function moduleTable({ rows, stepMs }: ProfileSummary): ProfileTable {
  const all = modulesOf(moduleTree(rows));
  const inPhase =
    (phase: string) =>
    ({ rows: own }: (typeof all)[number]): string => {
      const ofPhase = own.filter((row) => row.phase === phase);
      return ofPhase.length === 0 ? '' : timeText(sumOf(ofPhase, 'ms'));
    };
  return tableOf(all, 1, [
    ['module', ({ path }) => path],
    ['time', ({ ms }) => timeText(ms)],
    ['share', ({ ms }) => percent(ms / stepMs)],
    ['forward', inPhase('forward')],
    ['backward', inPhase('backward')],
    ['again', inPhase('recomputation')],
    ['update', inPhase('optimizer')],
    ['GFLOP', ({ rows: own }) => amount(sumOf(own, 'flops') / 1e9)],
    ['bytes', ({ rows: own }) => formatBytes(sumOf(own, 'bytes'))],
  ]);
}

/** What the ranks waited for in one step. */
export function waitTable({ waits, stepMs }: ProfileSummary): ProfileTable {
  return tableOf(waits, 3, [
    ['message', ({ op }) => op],
    ['phase', ({ phase }) => phase],
    ['module', ({ module }) => module],
    ['count', ({ count }) => amount(count)],
    ['waited', ({ ms }) => timeText(ms)],
    ['share', ({ ms }) => percent(ms / stepMs)],
    ['bytes', ({ bytes }) => formatBytes(bytes)],
  ]);
}

/** A number with three digits. Nothing for 0, and for what is no number. */
export function amount(value: number): string {
  if (!Number.isFinite(value) || value === 0) return '';
  if (value >= 100 || Number.isInteger(value)) return value.toFixed(0);
  return value.toFixed(value >= 10 ? 1 : value >= 0.1 ? 2 : 3);
}

/** Writes a time with three digits: `26.1 µs`, `165 ms`. */
function timeText(ms: number): string {
  return ms > 0 && ms < 0.1 ? `${amount(ms * 1000)} µs` : formatMilliseconds(ms);
}
