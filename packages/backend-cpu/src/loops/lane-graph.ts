import type { Code, Operation } from '@shardwise/wasm-assembler';
import { type LaneOperation, isLaneOperation } from './emit-operation.ts';

/** A loop has code that is not written for this processor's vectors. */
export class NoLanesError extends Error {}

export type LaneNode =
  | { readonly kind: 'input'; readonly input: number }
  /** The same bits in all lanes. */
  | { readonly kind: 'constant'; readonly bits: number }
  | {
      readonly kind: 'operation';
      readonly name: LaneOperation;
      readonly inputs: readonly number[];
      /** By how many bits it shifts. */
      readonly bits: number;
    };

/** Code of lanes as a graph in which equal values are one node. Nodes come behind those that they read. */
export class LaneGraph {
  readonly nodes: LaneNode[] = [];
  readonly #byKey = new Map<string, number>();
  readonly #byOperation = new Map<Operation, number>();

  /** Throws NoLanesError. */
  add({ operation }: Code<'v128'>): number {
    if (operation === undefined) throw new NoLanesError('code of a vector that has no lanes');
    const known = this.#byOperation.get(operation);
    if (known !== undefined) return known;
    const inputs = operation.inputs.map((input) => this.add(input));
    const id = this.#intern(nodeOf(operation, inputs));
    this.#byOperation.set(operation, id);
    return id;
  }

  node(id: number): LaneNode {
    const node = this.nodes[id];
    if (node === undefined) throw new RangeError(`no node ${id} of ${this.nodes.length}`);
    return node;
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
  return { kind: 'operation', name, inputs, bits: number };
}
