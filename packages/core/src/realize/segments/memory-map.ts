import { ops } from '../../graph/ops/ops.ts';
import type { ConcatsInPlace } from './concats-in-place.ts';
import { align, type Living, packScratch, type Space } from './pack-scratch.ts';
import type { DraftStep } from './segment.ts';
import type { Sources } from './sources.ts';
import { byteLengthOf, isCompute, type ValueGraph } from '../values/values.ts';

/** The place of a value's bytes while a plan runs. */
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
   * The value lies in an allocation that a node of the graph keeps after the run. Values whose last read comes before
   * the node's value is written may lie there, too.
   */
  | {
      readonly kind: 'result';
      readonly allocation: number;
      readonly byteOffset: number;
      readonly byteLength: number;
    };

export interface MemoryMap {
  /** The place of each value. Undefined for a value that needs no memory. */
  readonly places: readonly (Place | undefined)[];
  /** The length of each buffer of scratch memory. */
  readonly scratchBuffers: readonly number[];
  readonly allocations: readonly Allocation[];
  /** The outputs of collectives that run in place: they lie where their inputs lay. */
  readonly inPlace: ReadonlySet<number>;
  readonly concats: ConcatsInPlace;
}

/** Memory for results. */
interface Allocation {
  readonly byteLength: number;
  /** The value that lies alone in the allocation because its length varies between runs. Null for other allocations. */
  readonly of: number | null;
}

/** Memory that is placed as one piece: that of one value, or of the values of a bucket. */
interface Block extends Living {
  readonly values: readonly number[];
  readonly offsets: readonly number[];
  readonly kept: boolean;
}

export interface MemoryMapOptions {
  /** The alignment of places in bytes. */
  readonly alignment: number;
  /** The most bytes of a buffer of scratch memory, unless it has only one block. Default: there is one buffer. */
  readonly bufferBytes?: number | undefined;
  readonly sources: Sources;
  /** For each value that arrives in the memory of the leaf that it updates, the number of this leaf. */
  readonly arriving: ReadonlyMap<number, number>;
  /** Whether a value may have fewer bytes in a run than in the graph. */
  readonly varies: (value: number) => boolean;
  /** The concatenations that are not in the draft. Their inputs are placed in them. */
  readonly concats: ConcatsInPlace;
}

/**
 * Gives a place to every value that passes from one step to another. Buckets are contiguous, so that the gradients of
 * a bucket are computed directly into the message. Values whose lives do not overlap share memory.
 */
export function mapMemory(
  graph: ValueGraph,
  draft: readonly DraftStep[],
  { alignment, bufferBytes = Infinity, sources, arriving, varies, concats }: MemoryMapOptions,
): MemoryMap {
  const lives = livesOf(graph, draft, sources, concats);
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
  // A concatenation may itself be an input of a later one, which is placed first.
  for (const [id, inputs] of [...concats].toReversed())
    placeInputs(graph, inputs, places[id], places);
  return { places, scratchBuffers, allocations, inPlace: new Set(overwritten.keys()), concats };
}

/** Places the inputs of a concatenation one after another where the result lies. */
function placeInputs(
  graph: ValueGraph,
  inputs: readonly number[],
  whole: Place | undefined,
  places: (Place | undefined)[],
): void {
  if (whole === undefined || whole.kind === 'leaf')
    throw new RangeError('a concatenation without memory');
  let { byteOffset } = whole;
  for (const id of inputs) {
    const byteLength = byteLengthOf(graph, id);
    places[id] = { ...whole, byteOffset, byteLength };
    byteOffset += byteLength;
  }
}

/** Whether a value is computed or arrives on the device. Leaves already have a place, and pages need none. */
function isOnDevice(graph: ValueGraph, id: number): boolean {
  const op = graph.values[id]?.op;
  return op !== 'input' && op !== 'pageOut';
}

/** For each value that needs memory, the first and the last step of the draft in which it needs it. */
class Lives {
  /** By value, the step that makes it and the last step that reads it. -1 if there is none. */
  readonly #from: Int32Array;
  readonly #to: Int32Array;

  constructor(values: number) {
    this.#from = new Int32Array(values).fill(-1);
    this.#to = new Int32Array(values).fill(-1);
  }

  begin(id: number, step: number): void {
    this.#from[id] = step;
  }

  /** Keeps the memory of a value at least to the end of a step. */
  extend(id: number, step: number): void {
    this.#to[id] = Math.max(this.to(id), step);
  }

  forget(id: number): void {
    this.#to[id] = -1;
  }

  /** The step that makes a value. -1 if no step does. */
  from(id: number): number {
    return this.#from[id] ?? -1;
  }

  /** The last step that reads a value. -1 if the value needs no memory. */
  to(id: number): number {
    return this.#to[id] ?? -1;
  }
}

function livesOf(
  graph: ValueGraph,
  draft: readonly DraftStep[],
  sources: Sources,
  concats: ConcatsInPlace,
): Lives {
  const lives = new Lives(graph.values.length);
  const wholes = new Map<number | undefined, number>();
  for (const [whole, inputs] of concats) for (const input of inputs) wholes.set(input, whole);
  const begin = (id: number, step: number): void => {
    lives.begin(id, step);
    // The memory of a concatenation is needed from the first of its inputs on.
    const whole = wholes.get(id);
    if (whole !== undefined && lives.from(whole) < 0) begin(whole, step);
  };
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
      begin(id, index);
      // A segment recomputes cheap values, so it reads the values that they are made of.
      for (const input of sources.of(id)) read(input, index);
    }
  });
  for (const root of graph.roots) read(root, draft.length);
  return lives;
}

/** For each output of a collective or transfer that may run in place, the input that it overwrites. */
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
      if (!ops[value.op].worksInPlace) continue;
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

/** Whether the values of a start step are one message, and lie side by side. Contents from a source are not. */
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
