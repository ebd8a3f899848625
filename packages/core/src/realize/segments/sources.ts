import { dtypes } from '../../spec/dtype.ts';
import { isCompute, type ValueGraph } from '../values/values.ts';

/** The values that each value of a graph reads from memory. */
export class Sources {
  readonly #graph: ValueGraph;
  /** For each value, 1 if every segment that reads it computes it anew instead of passing it through memory, else 0. */
  readonly #cheap: Uint8Array;
  /** For each value, the number of collectives and transfers that take it. */
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

  /** Whether every segment that reads a value computes it anew. */
  isCheap(id: number): boolean {
    return this.#cheap[id] === 1;
  }

  /** The number of collectives and transfers that take a value. */
  moversOf(id: number): number {
    return this.#movers[id] ?? 0;
  }

  /** The inputs of a value, and, for cheap inputs, also the values that they are made of. */
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
   * Whether a value is another shape of a value that lies in memory anyway, or a cast of 16-bit values to f32. Segments
   * compute such casts anew, so that no f32 copy is kept from one segment to another, and so that products of a later
   * segment see that their operands have 16 bits.
   */
  #isView(id: number, input: number): boolean {
    const { [id]: value, [input]: source } = this.#graph.values;
    if (source === undefined || value === undefined) return false;
    const widens = value.op === 'cast' && value.dtype === 'f32' && dtypes[source.dtype].bytes === 2;
    return widens || (value.op === 'reshape' && !isCompute(source));
  }
}
