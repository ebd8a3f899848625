import { dtypes } from '../spec/dtype.ts';
import { isCompute, type ValueGraph } from './values.ts';

/** What the values of a graph read from memory. */
export class Sources {
  readonly #graph: ValueGraph;
  /**
   * For each value 1 where every segment makes it for itself instead of passing it through memory, else 0.
   */
  readonly #cheap: Uint8Array;
  /** For each value how many collectives and transfers take it. */
  readonly #movers: Uint32Array;
  readonly #sources: (readonly number[] | undefined)[] = [];

  constructor(graph: ValueGraph) {
    const { values } = graph;
    this.#graph = graph;
    this.#cheap = new Uint8Array(values.length);
    this.#movers = new Uint32Array(values.length);
    for (let id = 0; id < values.length; id++) {
      const value = values[id];
      if (this.#isMadeCheaply(id)) this.#cheap[id] = 1;
      if (value === undefined || isCompute(value)) continue;
      for (const input of new Set(value.inputs)) this.#movers[input] = this.moversOf(input) + 1;
    }
  }

  /** Whether every segment makes a value for itself. */
  isCheap(id: number): boolean {
    return this.#cheap[id] === 1;
  }

  /** How many collectives and transfers take a value. */
  moversOf(id: number): number {
    return this.#movers[id] ?? 0;
  }

  /** The inputs of a value, and what those are made of that are cheap. */
  of(id: number): readonly number[] {
    const known = this.#sources[id];
    if (known !== undefined) return known;
    const { inputs = [] } = this.#graph.values[id] ?? {};
    const sources = inputs.some((input) => this.isCheap(input))
      ? inputs.flatMap((input) => (this.isCheap(input) ? [input, ...this.of(input)] : [input]))
      : inputs;
    this.#sources[id] = sources;
    return sources;
  }

  #isMadeCheaply(id: number): boolean {
    const value = this.#graph.values[id];
    if (value === undefined) return false;
    if (value.op === 'constant' || value.op === 'iota') return true;
    if (value.op !== 'expand' && value.op !== 'reshape' && value.op !== 'cast') return false;
    return value.inputs.every((input) => this.isCheap(input) || this.#isView(id, input));
  }

  /**
   * Another shape of what lies in memory anyway, or the f32 values of 16-bit ones: no f32 copy of them is kept from one segment to
   * another, and products of a later one see that their operands have 16 bits.
   */
  #isView(id: number, input: number): boolean {
    const { [id]: value, [input]: source } = this.#graph.values;
    if (source === undefined || value === undefined) return false;
    const widens = value.op === 'cast' && value.dtype === 'f32' && dtypes[source.dtype].bytes === 2;
    return widens || (value.op === 'reshape' && !isCompute(source));
  }
}
