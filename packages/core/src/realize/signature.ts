import { isOp, none, type Node } from '../graph/node.ts';
import type { Subgraph } from './collect.ts';

/**
 * The structure of a subgraph as integers: two subgraphs with equal signatures run the same plan.
 * Shapes of inner nodes follow from leaves, ops and parameters, so only leaves contribute theirs.
 */
export class Signatures {
  readonly #interned = new Map<string, number>();
  #words = new Int32Array(4096);
  #length = 0;

  of(
    subgraph: Subgraph,
    roots: readonly Node[],
  ): { readonly hash: number; readonly words: Int32Array } {
    this.#length = 0;
    for (const leaf of subgraph.leaves)
      this.#push(this.#intern(`${leaf.dtype}${leaf.shape.join(',')}`));
    this.#push(-1);
    let era = 0;
    for (const node of subgraph.computed) {
      if (node.era !== era) this.#push(-2);
      era = node.era;
      this.#push(this.#intern(node.op));
      if (node.params !== none) this.#push(this.#intern(paramsKey(node)));
      for (const input of node.inputs) this.#push(input.slot);
      this.#push(-1);
    }
    for (const root of roots) this.#push(root.slot);
    const words = this.#words.subarray(0, this.#length);
    return { hash: hashOf(words), words };
  }

  #intern(text: string): number {
    let id = this.#interned.get(text);
    if (id === undefined) {
      id = this.#interned.size;
      this.#interned.set(text, id);
    }
    return id;
  }

  #push(word: number): void {
    if (this.#length === this.#words.length) {
      const larger = new Int32Array(this.#words.length * 2);
      larger.set(this.#words);
      this.#words = larger;
    }
    this.#words[this.#length++] = word;
  }
}

/** Constants are most of the parameters, and may be what JSON cannot write. */
export function paramsKey(node: Node): string {
  if (!isOp(node, 'constant')) return JSON.stringify(node.params);
  const { value, dtype, shape } = node.params;
  return `${Object.is(value, -0) ? '-0' : value} ${dtype} ${shape.join(',')}`;
}

/** FNV-1a over words. */
function hashOf(words: Int32Array): number {
  let hash = 0x811c9dc5 | 0;
  for (const word of words) hash = Math.imul(hash ^ word, 0x01000193);
  return hash;
}

export function sameWords(a: Int32Array, b: Int32Array): boolean {
  if (a.length !== b.length) return false;
  for (let i = 0; i < a.length; i++) if (a[i] !== b[i]) return false;
  return true;
}
