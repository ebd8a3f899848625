import type { MemoryAllocation, MemoryRecord, MemoryValue } from '@shardwise/core/extend';
import { memoryCategories, type MemoryBlock, type MemoryProfile } from './memory-profile.ts';

/** What a block is, without its size and times. */
export type BlockName = Pick<MemoryBlock, 'category' | 'module' | 'operation'>;

/** What is known of the memory of a rank. */
export interface KnownMemory {
  readonly rank: number;
  readonly record: MemoryRecord;
  /** What was there before, and until when. */
  readonly before: readonly (BlockName & { readonly bytes: number; readonly toMs: number })[];
  /** `allocation` is where the value lies. Undefined: in temporary memory of the device. */
  readonly nameOf: (value: MemoryValue, allocation?: MemoryAllocation) => BlockName;
  /** What an allocation is all of. Null: its values say it. */
  readonly nameOfAllocation: (allocation: MemoryAllocation) => BlockName | null;
}

const reserved = memoryCategories.indexOf('reserved');

/**
 * Says for each time what all bytes in use are. What no block explains is reserved, so that the categories always add
 * up to what the device says.
 */
export function accountMemory(known: KnownMemory): MemoryProfile {
  const { record } = known;
  const { startMs, endMs, usage } = record;
  const blocks = blocksOf(known);
  const changes = new Map<number, number[]>();
  const change = (ms: number, category: number, bytes: number): void => {
    const sums = changes.get(ms) ?? memoryCategories.map(() => 0);
    changes.set(ms, sums);
    sums[category] = (sums[category] ?? 0) + bytes;
  };
  for (const { category, bytes, fromMs, toMs } of blocks) {
    const index = memoryCategories.indexOf(category);
    change(fromMs, index, bytes);
    change(toMs, index, -bytes);
  }
  const totals = new Map(usage.map(({ ms, bytes }) => [ms - startMs, bytes]));
  const times = [...new Set([...totals.keys(), ...changes.keys()])]
    .filter((ms) => ms < endMs - startMs)
    .toSorted((a, b) => a - b);
  const sums = memoryCategories.map(() => 0);
  let total = 0;
  const points = times.map((ms) => {
    changes.get(ms)?.forEach((bytes, index) => (sums[index] = (sums[index] ?? 0) + bytes));
    total = totals.get(ms) ?? total;
    const explained = sums.reduce((sum, bytes) => sum + bytes, 0);
    return { ms, bytes: sums.with(reserved, total - explained) };
  });
  return {
    rank: known.rank,
    durationMs: endMs - startMs,
    points,
    blocks: blocks.toSorted((a, b) => b.bytes - a.bytes),
    peak: peakOf(points, blocks),
  };
}

function blocksOf({ record, before, nameOf, nameOfAllocation }: KnownMemory): MemoryBlock[] {
  const { startMs, endMs, allocations, temporaries } = record;
  const blocks: MemoryBlock[] = [];
  const add = (
    name: BlockName,
    bytes: number,
    from: number,
    to: number,
    [earliest, latest]: readonly [number, number],
  ): void => {
    const fromMs = Math.max(from, earliest) - startMs;
    const toMs = Math.min(to, latest, endMs) - startMs;
    if (bytes > 0 && toMs > fromMs) blocks.push({ ...name, bytes, fromMs, toMs });
  };
  const all = [startMs, endMs] as const;
  for (const { bytes, toMs, ...name } of before) add(name, bytes, startMs, toMs, all);
  for (const allocation of allocations) {
    const { bytes, fromMs, toMs, values } = allocation;
    const lives = [fromMs, toMs] as const;
    const whole = nameOfAllocation(allocation);
    if (whole !== null) add(whole, bytes, ...lives, lives);
    else {
      for (const value of values) {
        add(nameOf(value, allocation), value.bytes, value.fromMs, value.toMs, lives);
      }
    }
  }
  for (const value of temporaries) {
    add(nameOf(value), value.bytes, value.fromMs, value.toMs, all);
  }
  return blocks;
}

function peakOf(
  points: MemoryProfile['points'],
  blocks: readonly MemoryBlock[],
): MemoryProfile['peak'] {
  const sumOf = (bytes: readonly number[]): number => bytes.reduce((sum, each) => sum + each, 0);
  const [first, ...rest] = points;
  if (first === undefined) return { ms: 0, bytes: 0, blocks: [] };
  const peak = rest.reduce((most, point) => {
    const more = sumOf(point.bytes) - sumOf(most.bytes);
    const isFuller = (point.bytes[reserved] ?? 0) < (most.bytes[reserved] ?? 0);
    return more > 0 || (more === 0 && isFuller) ? point : most;
  }, first);
  const alive = blocks.filter(({ fromMs, toMs }) => fromMs <= peak.ms && toMs > peak.ms);
  const unused = peak.bytes[reserved] ?? 0;
  const free: MemoryBlock = {
    bytes: unused,
    category: 'reserved',
    module: '',
    operation: 'nothing lies in it at the moment',
    fromMs: peak.ms,
    toMs: peak.ms,
  };
  return {
    ms: peak.ms,
    bytes: sumOf(peak.bytes),
    blocks: [...alive, ...(unused === 0 ? [] : [free])].toSorted((a, b) => b.bytes - a.bytes),
  };
}
