import { type Lifetime, placeLifetimes } from '@shardwise/core/base';
import type { Program } from '@shardwise/core/spec';
import { alignmentBytes } from '../memory/arena.ts';
import type { Dataflow } from '../program/dataflow.ts';
import { byteLengthOf, valueAt, type Segment } from '../program/instruction.ts';
import type { PieceProgram } from '../program/partition.ts';

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
  /** Reshapes that pieces read, and the values in memory that they are reshapes of. */
  readonly reshapes: ReadonlyMap<number, number>;
  /** Copies of inputs that are outputs too. */
  readonly copiesBefore: readonly Copy[];
  /** Copies of the results of updates that could not be made in place. */
  readonly copiesAfter: readonly Copy[];
  /** Whether the last piece writes inputs. */
  readonly updatesInPlace: boolean;
}

/** The location of every value that pieces read or write, by value id. */
export interface Locations {
  readonly of: ReadonlyMap<number, Location>;
  readonly scratchBytes: number;
}

/** Maps an update's value to the input that the last piece writes directly, if that piece is a kernel. */
export function inPlaceUpdates(
  segment: Segment,
  pieces: readonly PieceProgram[],
  flow: Dataflow,
): ReadonlyMap<number, number> {
  const inPlace = new Map<number, number>();
  const last = pieces.at(-1);
  if (last?.kind !== 'kernel') return inPlace;
  const made = new Set(last.steps.map(({ output }) => output));
  const outputs = new Set(segment.outputs.map((id) => flow.root(id)));
  for (const { target, value } of segment.updates) {
    if (made.has(value) && !outputs.has(value) && !inPlace.has(value)) inPlace.set(value, target);
  }
  return inPlace;
}

/** `kernelStorage` lists, for each piece, the values that its kernels need memory for. */
export function planStorage(
  program: Program,
  segment: Segment,
  pieces: readonly PieceProgram[],
  kernelStorage: readonly (readonly number[])[],
  flow: Dataflow,
  inPlace: ReadonlyMap<number, number>,
): StoragePlan {
  const locations = new Map<number, Location>();
  for (let index = 0; index < segment.inputCount; index++) {
    locations.set(index, { in: 'input', index });
  }
  const aside = new Set(kernelStorage.flat());
  for (const [value, index] of inPlace) {
    // If the target is still read, the kernel computes the value aside and copies it itself.
    if (!aside.has(value)) locations.set(value, { in: 'input', index });
  }

  const bytesOf = (id: number): number => byteLengthOf(valueAt(segment.values, id));
  const copiesBefore: Copy[] = [];
  for (const id of segment.outputs) {
    const to: Location = { in: 'output', index: program.outputs.indexOf(id) };
    const root = flow.root(id) ?? id;
    if (root < segment.inputCount) copiesBefore.push({ from: root, to, byteLength: bytesOf(root) });
    else locations.set(root, to);
  }

  const copiesAfter: Copy[] = segment.updates
    .filter(({ target, value }) => inPlace.get(value) !== target)
    .map(({ target, value }) => ({
      from: value,
      to: { in: 'input', index: target },
      byteLength: bytesOf(target),
    }));

  return {
    given: locations,
    temporaries: lifetimesOf(segment, pieces, kernelStorage, flow).filter(
      ({ id }) => !locations.has(id),
    ),
    reshapes: new Map(
      pieces.flatMap(({ inputs }) => inputs.map((id) => [id, flow.root(id) ?? id] as const)),
    ),
    copiesBefore,
    copiesAfter,
    updatesInPlace: inPlace.size > 0,
  };
}

/** Places the temporaries in scratch memory. A reshape that a piece reads lies where its root lies. */
export function locate({ given, temporaries, reshapes }: StoragePlan): Locations {
  const { places, pageBytes } = placeLifetimes(temporaries, { alignmentBytes });
  const locations = new Map(given);
  for (const [id, { byteOffset }] of places) {
    locations.set(id, { in: 'scratch', byteOffset });
  }
  for (const [id, root] of reshapes) {
    const location = locations.get(root);
    if (location !== undefined) locations.set(id, location);
  }
  return { of: locations, scratchBytes: pageBytes[0] ?? 0 };
}

function lifetimesOf(
  segment: Segment,
  pieces: readonly PieceProgram[],
  kernelStorage: readonly (readonly number[])[],
  flow: Dataflow,
): Lifetime[] {
  const first = new Map<number, number>();
  const last = new Map<number, number>();
  for (const [index, piece] of pieces.entries()) {
    for (const id of [...piece.outputs, ...(kernelStorage[index] ?? [])]) {
      if (!first.has(id)) first.set(id, index);
      last.set(id, index);
    }
    for (const id of piece.inputs) last.set(flow.root(id) ?? id, index);
  }
  for (const { value } of segment.updates) last.set(value, pieces.length);
  return [...first].map(([id, index]) => ({
    id,
    byteLength: byteLengthOf(valueAt(segment.values, id)),
    first: index,
    last: last.get(id) ?? index,
  }));
}
