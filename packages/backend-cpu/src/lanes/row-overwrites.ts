import { type Code, FunctionBuilder } from '@shardwise/wasm-assembler';
import type { Cursor, Fold, RowProgram, Rows, Vector } from './rows.ts';

/**
 * The pairs of operands, one read and one written, that may lie in the same memory: both have elements for each row,
 * and the program loads nothing of the first after it has stored into the second at the same or at a later column.
 */
export function rowOverwrites({
  write,
}: RowProgram): readonly (readonly [read: number, written: number])[] {
  const order = new AccessOrder();
  write(order);
  return [...order.lastLoads].flatMap(([read, load]) =>
    [...order.firstStores].flatMap(([written, store]) => {
      const isByRow = order.advancing.has(read) && order.advancing.has(written);
      return isByRow && load < store ? [[read, written] as const] : [];
    }),
  );
}

/** Records in which order a program loads and stores its operands. The address of an operand is its number. */
class AccessOrder implements Rows<number> {
  readonly fn = new FunctionBuilder(0);
  readonly advancing = new Set<number>();
  readonly lastLoads = new Map<number, number>();
  readonly firstStores = new Map<number, number>();
  #accesses = 0;

  address(index: number): number {
    return index;
  }

  mean(sum: Vector): Vector {
    return sum;
  }

  eachRow(advancing: readonly number[], body: () => void): void {
    for (const operand of advancing) this.advancing.add(operand);
    body();
  }

  each(body: (at: Cursor<number>) => void): void {
    body(this.#cursor());
  }

  fold(folds: readonly Fold[], terms: (at: Cursor<number>) => readonly Code<'v128'>[]): Vector[] {
    terms(this.#cursor());
    return folds.map(() => this.fn.float(0));
  }

  #cursor(): Cursor<number> {
    const store = (operand: number): void => {
      this.#accesses += 1;
      if (!this.firstStores.has(operand)) this.firstStores.set(operand, this.#accesses);
    };
    const load = (operand: number): Vector => {
      this.#accesses += 1;
      this.lastLoads.set(operand, this.#accesses);
      return this.fn.float(0);
    };
    return { load, store, keep: store };
  }
}
