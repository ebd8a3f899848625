import { type Lifetime, placeLifetimes } from '@shardwise/core/base';
import type { Program, Temporaries } from '@shardwise/core/spec';
import { ALIGNMENT_BYTES } from '../memory/arena.ts';
import type { Dataflow } from '../program/dataflow.ts';
import { byteLengthOf, valueAt, type CpuProgram } from '../program/instruction.ts';
import type { CompletePartition } from '../program/partition.ts';

/** Where a value lies during a run. */
export type Location =
  | { readonly in: 'input'; readonly index: number }
  | { readonly in: 'output'; readonly index: number }
  | { readonly in: 'scratch'; readonly byteOffset: number };

/** A copy of the value `from`, which lies in memory. */
export interface Copy {
  readonly from: number;
  readonly to: Location;
  readonly byteLength: number;
}

/** Where the values of a program lie. The places of temporaries in scratch memory are decided later, by `locate`. */
export interface StoragePlan {
  /** The locations of values in the caller's buffers, by value id. */
  readonly given: ReadonlyMap<number, Location>;
  readonly temporaries: readonly Lifetime[];
  /** Maps values to values whose memory they take over, in the order in which they are computed. */
  readonly overwrites: ReadonlyMap<number, number>;
  /** The number of partitions. */
  readonly parts: number;
  /** Reshapes that partitions read, and the values in memory that they are reshapes of. */
  readonly reshapes: ReadonlyMap<number, number>;
  /** Copies of inputs that are outputs too. */
  readonly copiesBefore: readonly Copy[];
  /** Copies of the results of updates that could not be made in place. */
  readonly copiesAfter: readonly Copy[];
  /** The first partition that writes inputs. Infinity: none does. */
  readonly firstUpdate: number;
}

/** The location of every value that partitions read or write, by value id. */
export interface Locations {
  readonly of: ReadonlyMap<number, Location>;
  readonly scratchBytes: number;
  readonly temporaries: Temporaries;
}

/**
 * Maps an update's value to the input that a partition writes directly. This is the last partition, if it is a kernel.
 * Earlier kernels write into inputs by indices, as into a cache that a later partition reads, if no later one reads what
 * was there before.
 */
export function inPlaceUpdates(
  program: CpuProgram,
  partitions: readonly CompletePartition[],
  flow: Dataflow,
): ReadonlyMap<number, number> {
  const inPlace = new Map<number, number>();
  const outputs = new Set(program.outputs.map((id) => flow.root(id)));
  const last = partitions.length - 1;
  for (const { target, value } of program.updates) {
    const maker = partitions.findIndex(
      ({ kind, instructions }) =>
        kind === 'kernel' && instructions.some(({ output }) => output === value),
    );
    const made = flow.producer(value);
    const isScatter = made?.op === 'scatter' && flow.root(made.inputs[0] ?? -1) === target;
    const isReadLater = (): boolean =>
      partitions.slice(maker + 1).some(({ inputs }) => inputs.includes(target));
    const isDirect = maker >= 0 && (maker === last || (isScatter && !isReadLater()));
    if (isDirect && !outputs.has(value) && !inPlace.has(value)) inPlace.set(value, target);
  }
  return inPlace;
}

/** The first partition that writes inputs. Infinity: none does. */
function firstUpdate(
  partitions: readonly CompletePartition[],
  inPlace: ReadonlyMap<number, number>,
): number {
  const first = partitions.findIndex(({ instructions }) =>
    instructions.some(({ output }) => inPlace.has(output)),
  );
  return first < 0 ? Number.POSITIVE_INFINITY : first;
}

/** What the partitions of a program need memory for. */
interface StorageNeeds {
  /** For each partition, the values that its kernels need memory for. */
  readonly kernelStorage: readonly (readonly number[])[];
  /** The byte lengths of values of which only one row is kept at a time. */
  readonly keptRows: ReadonlyMap<number, number>;
  readonly overwrites: ReadonlyMap<number, number>;
}

export function planStorage(
  source: Program,
  program: CpuProgram,
  partitions: readonly CompletePartition[],
  { kernelStorage, keptRows, overwrites }: StorageNeeds,
  flow: Dataflow,
  inPlace: ReadonlyMap<number, number>,
): StoragePlan {
  const locations = new Map<number, Location>();
  for (let index = 0; index < program.inputCount; index++) {
    locations.set(index, { in: 'input', index });
  }
  const aside = new Set(kernelStorage.flat());
  for (const [value, index] of inPlace) {
    // If the target is still read, the kernel computes the value aside and copies it itself.
    if (!aside.has(value)) locations.set(value, { in: 'input', index });
  }

  const bytesOf = (id: number): number => byteLengthOf(valueAt(program.values, id));
  const copiesBefore: Copy[] = [];
  for (const id of program.outputs) {
    const to: Location = { in: 'output', index: source.outputs.indexOf(id) };
    const root = flow.root(id) ?? id;
    if (root < program.inputCount) copiesBefore.push({ from: root, to, byteLength: bytesOf(root) });
    else locations.set(root, to);
  }

  const copiesAfter: Copy[] = program.updates
    .filter(({ target, value }) => inPlace.get(value) !== target)
    .map(({ target, value }) => ({
      from: value,
      to: { in: 'input', index: target },
      byteLength: bytesOf(target),
    }));

  return {
    given: locations,
    temporaries: lifetimesOf(program, partitions, kernelStorage, flow)
      .filter(({ id }) => !locations.has(id))
      .map((value) => ({ ...value, byteLength: keptRows.get(value.id) ?? value.byteLength })),
    overwrites,
    parts: partitions.length,
    reshapes: new Map(
      partitions.flatMap(({ inputs }) => inputs.map((id) => [id, flow.root(id) ?? id] as const)),
    ),
    copiesBefore,
    copiesAfter,
    firstUpdate: firstUpdate(partitions, inPlace),
  };
}

/**
 * Places the temporaries in scratch memory. A value that takes over the memory of another one lies there, and what an
 * output takes over is computed where the output will be. A reshape that a partition reads lies where its root lies.
 */
export function locate(plan: StoragePlan): Locations {
  const { given, overwrites, parts, reshapes } = plan;
  const locations = new Map(given);
  for (const [value, old] of [...overwrites].toReversed()) {
    const location = locations.get(value);
    if (location !== undefined) locations.set(old, location);
  }
  const values = joined(
    plan.temporaries.filter(({ id }) => !locations.has(id)),
    overwrites,
  );
  const { places, pageBytes } = placeLifetimes(values, { alignmentBytes: ALIGNMENT_BYTES });
  for (const [id, { byteOffset }] of places) {
    locations.set(id, { in: 'scratch', byteOffset });
  }
  for (const [value, old] of overwrites) {
    const location = locations.get(old);
    if (location !== undefined) locations.set(value, location);
  }
  for (const [id, root] of reshapes) {
    const location = locations.get(root);
    if (location !== undefined) locations.set(id, location);
  }
  return { of: locations, scratchBytes: pageBytes[0] ?? 0, temporaries: { parts, values } };
}

/** Values that lie in the same memory one after another are one value here, which has the id of the first. */
function joined(
  temporaries: readonly Lifetime[],
  overwrites: ReadonlyMap<number, number>,
): readonly Lifetime[] {
  const values = new Map(temporaries.map((value) => [value.id, value]));
  const firstOf = new Map<number, number>();
  for (const [id, old] of overwrites) {
    const first = firstOf.get(old) ?? old;
    firstOf.set(id, first);
    const [before, after] = [values.get(first), values.get(id)];
    if (before === undefined || after === undefined) continue;
    values.set(first, { ...before, last: Math.max(before.last, after.last) });
    values.delete(id);
  }
  return [...values.values()];
}

function lifetimesOf(
  program: CpuProgram,
  partitions: readonly CompletePartition[],
  kernelStorage: readonly (readonly number[])[],
  flow: Dataflow,
): Lifetime[] {
  const first = new Map<number, number>();
  const last = new Map<number, number>();
  for (const [index, partition] of partitions.entries()) {
    for (const id of [...partition.outputs, ...(kernelStorage[index] ?? [])]) {
      if (!first.has(id)) first.set(id, index);
      last.set(id, index);
    }
    for (const id of partition.inputs) last.set(flow.root(id) ?? id, index);
  }
  for (const { value } of program.updates) last.set(value, partitions.length);
  return [...first].map(([id, index]) => ({
    id,
    byteLength: byteLengthOf(valueAt(program.values, id)),
    first: index,
    last: last.get(id) ?? index,
  }));
}
