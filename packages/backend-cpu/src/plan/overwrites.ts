import type { KernelCall } from '../kernels/kernel-call.ts';
import { overwritable } from '../kernels/overwritable.ts';
import type { Dataflow } from '../program/dataflow.ts';
import { byteLengthOf, type CpuProgram, valueAt } from '../program/instruction.ts';
import type { CompletePartition } from '../program/partition.ts';
import type { AnalysedPartition } from './analysed-partition.ts';

/** A call of a kernel, and when it runs. */
interface Moment {
  readonly call: KernelCall;
  readonly at: number;
  /** Whether the call runs after everything before it that uses this value, for each element on its own. */
  readonly isBehind: (value: number) => boolean;
}

/** When values are used for the first and for the last time. */
interface Uses {
  readonly moments: readonly Moment[];
  readonly first: ReadonlyMap<number, number>;
  readonly last: ReadonlyMap<number, number>;
}

/**
 * Maps values to values whose memory they take over, in the order in which they are computed. A kernel writes a value
 * over one that it reads if nothing reads the old value later. The program has made the old value itself, so no input, no
 * output and no result of an update is overwritten. `storage` lists, for each partition, the values that it needs memory
 * for, and `updated` are values that are written over inputs.
 */
export function overwritesOf(
  program: CpuProgram,
  partitions: readonly CompletePartition[],
  analysed: readonly AnalysedPartition[],
  storage: readonly (readonly number[])[],
  flow: Dataflow,
  updated: ReadonlySet<number>,
): ReadonlyMap<number, number> {
  const rootOf = (id: number): number => flow.root(id) ?? id;
  const { moments, first, last } = usesOf(program, partitions, analysed, storage, rootOf);
  const isSameType = (a: number, b: number): boolean => {
    const [one, other] = [valueAt(program.values, a), valueAt(program.values, b)];
    return one.dtype === other.dtype && byteLengthOf(one) === byteLengthOf(other);
  };
  const overwrites = new Map<number, number>();
  const taken = new Set<number>();
  for (const { call, at, isBehind } of moments) {
    const values = call.values.map(rootOf);
    const isAlone = (value: number): boolean => values.indexOf(value) === values.lastIndexOf(value);
    const dying = new Set(
      values.filter((id) => id >= program.inputCount && last.get(id) === at && isBehind(id)),
    );
    for (const [read, written] of dying.size > 0 ? overwritable(call) : []) {
      const [old, value] = [values[read] ?? -1, values[written] ?? -1];
      const isFree =
        dying.has(old) &&
        first.get(value) === at &&
        isAlone(old) &&
        isAlone(value) &&
        !taken.has(old) &&
        !overwrites.has(value) &&
        !updated.has(value);
      if (!isFree || !isSameType(old, value)) continue;
      overwrites.set(value, old);
      taken.add(old);
    }
  }
  return overwrites;
}

function usesOf(
  program: CpuProgram,
  partitions: readonly CompletePartition[],
  analysed: readonly AnalysedPartition[],
  storage: readonly (readonly number[])[],
  rootOf: (id: number) => number,
): Uses {
  const moments: Moment[] = [];
  const first = new Map<number, number>();
  const last = new Map<number, number>();
  let now = 0;
  const use = (ids: readonly number[]): void => {
    now += 1;
    for (const id of ids.map(rootOf)) {
      if (!first.has(id)) first.set(id, now);
      last.set(id, now);
    }
  };
  const useBy = (call: KernelCall, isBehind: Moment['isBehind']): void => {
    use(call.values);
    moments.push({ call, at: now, isBehind });
  };
  for (const [index, partition] of analysed.entries()) {
    const { inputs = [], outputs = [] } = partitions[index] ?? {};
    if (partition.kind === 'kernel') {
      for (const call of partition.plan.calls) useBy(call, () => true);
      use(partition.plan.copies.map(({ value }) => value));
    } else if (partition.kind === 'product') {
      // The loops run on some rows while the product still reads its operands for others.
      const { epilogue, product } = partition;
      const operands = new Set(inputs.map(rootOf));
      use([...inputs, product.result]);
      for (const call of epilogue) {
        useBy(
          call,
          (id) => !operands.has(id) && epilogue.every((loop) => readsElements(loop, id, rootOf)),
        );
      }
    } else use([...inputs, ...outputs, ...(storage[index] ?? [])]);
  }
  use([...program.outputs, ...program.updates.map(({ value }) => value)]);
  return { moments, first, last };
}

/** Whether a loop reads a value, if it does, only element by element. */
function readsElements(
  { reads = [], values }: KernelCall,
  id: number,
  rootOf: (id: number) => number,
): boolean {
  return reads.every((access, place) => access === 'element' || rootOf(values[place] ?? -1) !== id);
}
