import type { Code, Operation } from '@shardwise/wasm-assembler';
import {
  type Comparison,
  isComparison,
  isLaneOperation,
  type LaneOperation,
} from './emit-operation.ts';

/** Thrown if a loop has code that cannot be written for this processor's vectors. */
export class NoLanesError extends Error {}

export type LaneNode =
  | { readonly kind: 'input'; readonly input: number }
  /** A value with the same bits in all lanes. */
  | { readonly kind: 'constant'; readonly bits: number }
  | {
      readonly kind: 'operation';
      readonly name: LaneOperation;
      readonly inputs: readonly number[];
      /** The number of bits that a shift shifts by. */
      readonly bits: number;
      /** The comparison of a choice. Its two operands are inputs 2 and 3. Null for other operations. */
      readonly when: Comparison | null;
    };

/** Code on lanes as a graph, in which equal values are one node. Each node comes behind the nodes that it reads. */
export class LaneGraph {
  readonly nodes: LaneNode[] = [];
  readonly #byKey = new Map<string, number>();
  readonly #byOperation = new Map<Operation, number>();

  /** Adds a value and all that it reads, and returns its node. Throws NoLanesError. */
  add({ operation }: Code<'v128'>): number {
    if (operation === undefined) throw new NoLanesError('code of a vector that has no lanes');
    const known = this.#byOperation.get(operation);
    if (known !== undefined) return known;
    const inputs = operation.inputs.map((input) => this.add(input));
    const id = this.#intern(this.#choice(nodeOf(operation, inputs)));
    this.#byOperation.set(operation, id);
    return id;
  }

  node(id: number): LaneNode {
    const node = this.nodes[id];
    if (node === undefined) throw new RangeError(`no node ${id} of ${this.nodes.length}`);
    return node;
  }

  /** Turns a selection by the bits of a comparison into a choice by the comparison. */
  #choice(node: LaneNode): LaneNode {
    if (node.kind !== 'operation' || node.name !== 'v128.bitselect') return node;
    const [whenOne = -1, whenZero = -1, bits = -1] = node.inputs;
    const mask = this.node(bits);
    if (mask.kind !== 'operation' || !isComparison(mask.name)) return node;
    return { ...node, inputs: [whenOne, whenZero, ...mask.inputs], when: mask.name };
  }

  #intern(node: LaneNode): number {
    const key = JSON.stringify(node);
    const known = this.#byKey.get(key);
    if (known !== undefined) return known;
    const id = this.nodes.push(node) - 1;
    this.#byKey.set(key, id);
    return id;
  }
}

function nodeOf({ name, numbers }: Operation, inputs: readonly number[]): LaneNode {
  const [number = 0] = numbers;
  if (name === 'input') return { kind: 'input', input: number };
  if (name === 'const') {
    if (numbers.some((lane) => lane !== number)) throw new NoLanesError('lanes that differ');
    return { kind: 'constant', bits: number };
  }
  if (!isLaneOperation(name)) throw new NoLanesError(`no vectors of 16 lanes have ${name}`);
  return { kind: 'operation', name, inputs, bits: number, when: null };
}
