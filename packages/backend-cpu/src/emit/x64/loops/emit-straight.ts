import type { Vector } from '../operands.ts';
import {
  type Comparison,
  emitOperation,
  type LaneOperation,
  type Source,
} from './emit-operation.ts';
import type { LoopFrame } from './loop-frame.ts';
import type { Spares } from './loop-vectors.ts';
import { VectorRegisters } from './vector-registers.ts';

/** A part of code without jumps. Values are named by numbers. */
export type Item =
  | {
      readonly kind: 'operation';
      readonly value: number;
      readonly name: LaneOperation;
      readonly bits: number;
      readonly when: Comparison | null;
      readonly reads: readonly number[];
    }
  /** A value that is loaded. */
  | { readonly kind: 'load'; readonly value: number; readonly load: (target: Vector) => void }
  /** A use of a value. */
  | {
      readonly kind: 'use';
      readonly value: number;
      readonly use: (vector: Vector, spares: Spares) => void;
    };

/** Writes the items in this order. `homes` are values in memory. Registers from `count` on are not used. */
export function emitStraight(
  { code, pool, slots, vectors, aside }: LoopFrame,
  items: readonly Item[],
  homes: ReadonlyMap<number, Source>,
  count: number,
): void {
  const left = count - vectors.spares;
  const spares: Spares = [vectors.vector(left), vectors.vector(count - 1)];
  const registers = new VectorRegisters(
    code,
    slots,
    vectors.vector,
    left,
    homes,
    items.map(readsOf),
  );
  for (const [position, item] of items.entries()) {
    const reads = readsOf(item);
    if (item.kind === 'use') item.use(registers.register(item.value, reads), spares);
    else if (item.kind === 'load') item.load(registers.define(item.value, []));
    else {
      const valueAt = (index: number): number => reads[index] ?? -1;
      emitOperation(item.name, {
        code,
        vectors,
        aside: (write) => aside.push(write),
        spares,
        bits: item.bits,
        when: item.when,
        target: registers.define(item.value, reads),
        isInRegister: (index) => registers.isInRegister(valueAt(index)),
        register: (index) => registers.register(valueAt(index), [...reads, item.value]),
        source: (index) => registers.source(valueAt(index)),
        constant: (bits) => pool.constant(bits),
      });
    }
    registers.passed(position, [...reads, item.value]);
  }
}

function readsOf(item: Item): readonly number[] {
  if (item.kind === 'use') return [item.value];
  return item.kind === 'operation' ? item.reads : [];
}
