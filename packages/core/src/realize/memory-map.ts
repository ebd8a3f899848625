import { opFacts } from '../graph/op-facts.ts';
import { elementCount } from '../shape.ts';
import { dtypes } from '../spec/dtype.ts';
import type { DraftStep } from './segment.ts';
import type { Sources } from './sources.ts';
import { isCompute, type ValueGraph } from './values.ts';

/** Where a value's bytes are while a plan runs. */
export type Place =
  | { readonly kind: 'leaf'; readonly leaf: number }
  /** The value lies in the plan's scratch memory. */
  | { readonly kind: 'scratch'; readonly byteOffset: number; readonly byteLength: number }
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
  readonly scratchBytes: number;
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
interface Block {
  readonly values: readonly number[];
  readonly offsets: readonly number[];
  readonly byteLength: number;
  /** Steps of the draft, from the first write to the last read. */
  readonly from: number;
  readonly to: number;
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
  { alignment, sources, arriving, varies }: MemoryMapOptions,
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
    const space = { allocation, byteLength: block.byteLength, until: block.from, guests: [] };
    if (of === null) results.push(space);
    place(graph, block, space, 0, places);
  }
  const scratchBytes = packScratch(graph, scratch, results, places, alignment);
  for (const [output, input] of overwritten) {
    const { [output]: shared } = places;
    if (shared !== undefined) places[input] = shared;
  }
  return { places, scratchBytes, allocations, inPlace: new Set(overwritten.keys()) };
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

/** Memory that values whose lives do not meet share. */
interface Space {
  /** The allocation of the result that keeps it; null for the plan's scratch memory. */
  readonly allocation: number | null;
  readonly byteLength: number;
  /** The step that writes the result; before it the memory serves as scratch. */
  readonly until: number;
  /** Values that lie in this memory at some time, sorted by where they begin. */
  readonly guests: Guest[];
}

interface Guest {
  readonly from: number;
  readonly to: number;
  readonly start: number;
  readonly end: number;
}

/**
 * The largest blocks first, each in the first gap among those that live at its time (greedy by size:
 * Pisarchyk and Lee 2020, "Efficient memory management for deep neural net inference"), and first in
 * the memory of results that are not there yet: that of gradients, which come when activations go.
 * Returns the bytes needed beside it.
 */
function packScratch(
  graph: ValueGraph,
  blocks: Block[],
  results: readonly Space[],
  places: (Place | undefined)[],
  alignment: number,
): number {
  const scratch: Space = {
    allocation: null,
    byteLength: Number.POSITIVE_INFINITY,
    until: Number.POSITIVE_INFINITY,
    guests: [],
  };
  // The smallest that has room, so that large ones are left for large blocks; of equal ones the last to come.
  const bySize = results.toSorted((a, b) => a.byteLength - b.byteLength || b.until - a.until);
  const spaces = [...bySize, scratch];
  const larger = firstLarger(spaces);
  let total = 0;
  blocks.sort((a, b) => b.byteLength - a.byteLength || a.from - b.from);
  for (const block of blocks) {
    // What has no elements has an address all the same.
    const byteLength = align(Math.max(1, block.byteLength), alignment);
    let next = spaces.length;
    for (let at = firstWithRoom(spaces, block.byteLength); at < spaces.length; at = next) {
      const space = spaces[at];
      if (space === undefined) break;
      // Others of this size are there even earlier.
      const isThere = space.until <= block.to;
      next = isThere ? (larger[at] ?? spaces.length) : at + 1;
      if (isThere) continue;
      const start = startIn(space, block, byteLength);
      if (start + block.byteLength > space.byteLength) continue;
      addGuest(space, { from: block.from, to: block.to, start, end: start + byteLength });
      place(graph, block, space, start, places);
      if (space === scratch) total = Math.max(total, start + byteLength);
      break;
    }
  }
  return total;
}

/** For each space the place of the first one that is larger. */
function firstLarger(spaces: readonly Space[]): readonly number[] {
  const found = spaces.map(() => spaces.length);
  for (let at = spaces.length - 2; at >= 0; at--) {
    const isSame = spaces[at]?.byteLength === spaces[at + 1]?.byteLength;
    found[at] = isSame ? (found[at + 1] ?? 0) : at + 1;
  }
  return found;
}

/** The place of the first of spaces, sorted by size, that has so many bytes. */
function firstWithRoom(spaces: readonly Space[], byteLength: number): number {
  let [low, high] = [0, spaces.length];
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((spaces[middle]?.byteLength ?? 0) < byteLength) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** The first gap that is large enough among those who are there at the same time. */
function startIn({ guests }: Space, { from, to }: Block, byteLength: number): number {
  let start = 0;
  for (const guest of guests) {
    if (guest.to < from || guest.from > to) continue;
    if (guest.start - start >= byteLength) break;
    start = Math.max(start, guest.end);
  }
  return start;
}

function addGuest({ guests }: Space, guest: Guest): void {
  let [low, high] = [0, guests.length];
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((guests[middle]?.start ?? 0) <= guest.start) low = middle + 1;
    else high = middle;
  }
  guests.splice(low, 0, guest);
}

function place(
  graph: ValueGraph,
  { values, offsets }: Block,
  { allocation }: Space,
  start: number,
  places: (Place | undefined)[],
): void {
  values.forEach((id, index) => {
    const byteOffset = start + (offsets[index] ?? 0);
    const byteLength = byteLengthOf(graph, id);
    places[id] =
      allocation === null
        ? { kind: 'scratch', byteOffset, byteLength }
        : { kind: 'result', allocation, byteOffset, byteLength };
  });
}

function align(bytes: number, alignment: number): number {
  return Math.ceil(bytes / alignment) * alignment;
}
