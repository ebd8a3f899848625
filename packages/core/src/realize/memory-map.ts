import { opFacts } from '../graph/op-facts.ts';
import { elementCount } from '../shape.ts';
import { dtypes } from '../spec/dtype.ts';
import { align, type Living, packScratch, type Space } from './pack-scratch.ts';
import type { DraftStep } from './segment.ts';
import type { Sources } from './sources.ts';
import { isCompute, type ValueGraph } from './values.ts';

/** Where a value's bytes are while a plan runs. */
export type Place =
  | { readonly kind: 'leaf'; readonly leaf: number }
  /** The value lies in the plan's scratch memory. */
  | {
      readonly kind: 'scratch';
      readonly buffer: number;
      readonly byteOffset: number;
      readonly byteLength: number;
    }
  /**
   * The value lies in an allocation that a node of the graph keeps after the run. Values that are read before
   * the node's is written may lie there, too.
   */
  | {
      readonly kind: 'result';
      readonly allocation: number;
      readonly byteOffset: number;
      readonly byteLength: number;
    };

export interface MemoryMap {
  /** By value; undefined where it passes through no memory. */
  readonly places: readonly (Place | undefined)[];
  /** The length of each buffer of scratch memory. */
  readonly scratchBuffers: readonly number[];
  readonly allocations: readonly Allocation[];
  /** Collective outputs that lie where their input lay: they run in place. */
  readonly inPlace: ReadonlySet<number>;
}

/** Memory for results. */
export interface Allocation {
  readonly byteLength: number;
  /** The value whose bytes it has where they vary, and no other's; else null. */
  readonly of: number | null;
}

/** Bytes that move together: one value, or a bucket of them. */
interface Block extends Living {
  readonly values: readonly number[];
  readonly offsets: readonly number[];
  readonly kept: boolean;
}

function byteLengthOf(graph: ValueGraph, id: number): number {
  const value = graph.values[id];
  if (value === undefined) throw new RangeError(`no value ${id}`);
  return elementCount(value.shape) * dtypes[value.dtype].bytes;
}

export interface MemoryMapOptions {
  /** Bytes. */
  readonly alignment: number;
  /** The most bytes of a buffer of scratch memory, unless it has one block alone. Default: there is one buffer. */
  readonly bufferBytes?: number | undefined;
  readonly sources: Sources;
  /** Results of collectives that arrive in the memory of the leaf that they update. */
  readonly arriving: ReadonlyMap<number, number>;
  /** Whether the bytes of a value may be fewer in a run than the graph says. */
  readonly varies: (value: number) => boolean;
}

/**
 * Gives every value that crosses a step a place. Buckets are contiguous, so that a bucket's
 * gradients are computed straight into the message; values whose lives do not meet share memory.
 */
export function mapMemory(
  graph: ValueGraph,
  draft: readonly DraftStep[],
  { alignment, bufferBytes = Infinity, sources, arriving, varies }: MemoryMapOptions,
): MemoryMap {
  const lives = livesOf(graph, draft, sources);
  const overwritten = overwrittenInputs(graph, draft, { lives, sources, arriving });
  const places: (Place | undefined)[] = graph.values.map(() => undefined);
  const allocations: Allocation[] = [];
  for (let leaf = 0; leaf < graph.leafCount; leaf++) places[leaf] = { kind: 'leaf', leaf };
  for (const [value, leaf] of arriving) {
    places[value] = places[leaf];
    lives.forget(value);
  }

  const scratch: Block[] = [];
  const results: Space[] = [];
  for (const block of blocksOf(graph, draft, lives, overwritten, alignment)) {
    if (!block.kept) {
      scratch.push(block);
      continue;
    }
    const of = block.values.find(varies) ?? null;
    const allocation = allocations.push({ byteLength: block.byteLength, of }) - 1;
    const { byteLength, from: until } = block;
    const space: Space = { memory: { allocation }, byteLength, until, guests: [] };
    if (of === null) results.push(space);
    place(graph, block, space, 0, places);
  }
  const scratchBuffers = packScratch(scratch, results, {
    alignment,
    bufferBytes,
    put: (block, space, start) => place(graph, block, space, start, places),
  });
  for (const [output, input] of overwritten) {
    const { [output]: shared } = places;
    if (shared !== undefined) places[input] = shared;
  }
  return { places, scratchBuffers, allocations, inPlace: new Set(overwritten.keys()) };
}

/** What is computed or arrives there; leaves have a place already, pages need none. */
function isOnDevice(graph: ValueGraph, id: number): boolean {
  const op = graph.values[id]?.op;
  return op !== 'input' && op !== 'pageOut';
}

/** The steps of the draft between which each value lives that needs memory. */
class Lives {
  /** By value, the step that makes it, and the last one that reads it; -1 where none does. */
  readonly #from: Int32Array;
  readonly #to: Int32Array;

  constructor(values: number) {
    this.#from = new Int32Array(values).fill(-1);
    this.#to = new Int32Array(values).fill(-1);
  }

  begin(id: number, step: number): void {
    this.#from[id] = step;
  }

  /** The value has memory at least to the end of this step. */
  extend(id: number, step: number): void {
    this.#to[id] = Math.max(this.to(id), step);
  }

  forget(id: number): void {
    this.#to[id] = -1;
  }

  /** -1 where nothing makes it. */
  from(id: number): number {
    return this.#from[id] ?? -1;
  }

  /** -1 where it needs no memory. */
  to(id: number): number {
    return this.#to[id] ?? -1;
  }
}

function livesOf(graph: ValueGraph, draft: readonly DraftStep[], sources: Sources): Lives {
  const lives = new Lives(graph.values.length);
  const read = (id: number, step: number): void => {
    const born = lives.from(id);
    const value = graph.values[id];
    if (value === undefined || !isOnDevice(graph, id) || born < 0) return;
    if (born === step && isCompute(value)) return;
    lives.extend(id, step);
  };
  draft.forEach((step, index) => {
    if (step.kind === 'size') {
      for (const id of step.values) read(id, index);
      return;
    }
    if (step.kind === 'wait') {
      for (const id of step.values)
        for (const input of graph.values[id]?.inputs ?? []) read(input, index);
      for (const id of step.values) read(id, index);
      return;
    }
    for (const id of step.values) {
      lives.begin(id, index);
      // A segment remakes cheap values, so it reads what they are made of.
      for (const input of sources.of(id)) read(input, index);
    }
  });
  for (const root of graph.roots) read(root, draft.length);
  return lives;
}

/** The inputs of collectives that may run in place: their outputs lie where the inputs lay. */
function overwrittenInputs(
  graph: ValueGraph,
  draft: readonly DraftStep[],
  {
    lives,
    sources,
    arriving,
  }: Pick<MemoryMapOptions, 'sources' | 'arriving'> & { readonly lives: Lives },
): Map<number, number> {
  const waits = new Map<number | undefined, number>();
  const lastComputed = new Int32Array(graph.values.length).fill(-1);
  for (const [index, { kind, values }] of draft.entries()) {
    if (kind === 'wait') waits.set(values[0], index);
    if (kind !== 'compute') continue;
    for (const id of values) for (const input of sources.of(id)) lastComputed[input] = index;
  }
  const roots = new Set(graph.roots);
  const overwritten = new Map<number, number>();
  for (const [index, { kind, values }] of draft.entries()) {
    if (kind !== 'start') continue;
    const waited = waits.get(values[0]) ?? -1;
    for (const id of values) {
      const value = graph.values[id];
      const [input] = value?.inputs ?? [];
      if (value === undefined || input === undefined || arriving.has(id)) continue;
      if (!opFacts[value.op].worksInPlace) continue;
      const producer = graph.values[input];
      const isComputed = producer !== undefined && isCompute(producer);
      const lastRead = lives.to(input);
      const usedElsewhere = roots.has(input) || lastRead < 0 || lastRead > waited;
      const readMeanwhile = (lastComputed[input] ?? -1) > index;
      if (!isComputed || usedElsewhere || readMeanwhile || sources.moversOf(input) > 1) continue;
      overwritten.set(id, input);
    }
  }
  return overwritten;
}

/** Values of one message lie side by side; what a source brings does not. */
function isOneMessage(graph: ValueGraph, [first = -1]: readonly number[]): boolean {
  return graph.values[first]?.op !== 'refresh';
}

function blocksOf(
  graph: ValueGraph,
  draft: readonly DraftStep[],
  lives: Lives,
  overwritten: ReadonlyMap<number, number>,
  alignment: number,
): Block[] {
  const blocks: Block[] = [];
  const placed = new Uint8Array(graph.values.length);
  for (const input of overwritten.values()) placed[input] = 1;
  const roots = new Set(graph.roots);
  const add = (values: readonly number[]): void => {
    const offsets: number[] = [];
    let byteLength = 0;
    let from = Number.POSITIVE_INFINITY;
    let to = 0;
    for (const id of values) {
      if (lives.to(id) < 0) continue;
      from = Math.min(from, lives.from(id), lives.from(overwritten.get(id) ?? id));
      to = Math.max(to, lives.to(id));
      offsets.push(byteLength);
      byteLength = align(byteLength + byteLengthOf(graph, id), alignment);
      placed[id] = 1;
    }
    blocks.push({
      values,
      offsets,
      byteLength,
      from,
      to,
      kept: values.some((id) => roots.has(id)),
    });
  };
  for (const { kind, values } of draft) {
    if (kind === 'start' && values.length > 1 && isOneMessage(graph, values)) add(values);
  }
  for (let id = 0; id < placed.length; id++) {
    if (lives.to(id) >= 0 && placed[id] === 0) add([id]);
  }
  return blocks;
}

function place(
  graph: ValueGraph,
  { values, offsets }: Block,
  { memory }: Space,
  start: number,
  places: (Place | undefined)[],
): void {
  values.forEach((id, index) => {
    const byteOffset = start + (offsets[index] ?? 0);
    const byteLength = byteLengthOf(graph, id);
    places[id] =
      'buffer' in memory
        ? { kind: 'scratch', ...memory, byteOffset, byteLength }
        : { kind: 'result', ...memory, byteOffset, byteLength };
  });
}
