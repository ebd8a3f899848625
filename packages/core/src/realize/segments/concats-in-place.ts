import type { Value, ValueGraph } from '../values/values.ts';
import type { DraftStep } from './segment.ts';
import type { Sources } from './sources.ts';

/**
 * The concatenations that no step computes, because the steps that compute their inputs write these to their places in
 * the result. By concatenation, its inputs. Smaller ids come first.
 */
export type ConcatsInPlace = ReadonlyMap<number, readonly number[]>;

export interface ConcatOptions {
  /** The alignment of places in bytes. */
  readonly alignment: number;
  readonly sources: Sources;
  /** The functions of this name in `values.ts`, which are given so that this file, loaded on demand, imports nothing. */
  readonly isCompute: (value: Value) => boolean;
  readonly byteLengthOf: (graph: ValueGraph, id: number) => number;
  /** Whether a value may have fewer bytes in a run than in the graph. */
  readonly varies: (value: number) => boolean;
}

/**
 * Takes concatenations out of a draft whose inputs can lie in the result from the beginning, as the gradients of tiles
 * of a weight can. Otherwise memory would have to hold the inputs and the result together. The conditions are:
 * - The concatenation is along the outermost dim, and each input begins where the device lets a value begin.
 * - The inputs are computed, nothing else reads them, and nothing keeps them. An input may be a cast of such a value to
 *   f32, which each reader would make for itself otherwise. It is then computed where the value is.
 * - An input passes from one step to another. If one step computes all of them, the device may fuse them with the result.
 * - Whatever reads the result is in a later step than the last input, because a program cannot read what it writes.
 */
export function takeConcats(
  graph: ValueGraph,
  draft: readonly DraftStep[],
  { alignment, sources, varies, isCompute, byteLengthOf }: ConcatOptions,
): { readonly draft: readonly DraftStep[]; readonly concats: ConcatsInPlace } {
  const concats = new Map<number, readonly number[]>();
  if (!graph.values.some(isOutermostConcat)) return { draft, concats };
  const { madeIn, firstReads, reads } = usesOf(graph, draft, sources);
  const replacing = new Set(graph.updates.map(({ value }) => value));
  const kept = new Set([...graph.roots, ...replacing, ...graph.rowCounts]);
  const isFree = (id: number): boolean => {
    const value = graph.values[id];
    if (value === undefined || !isCompute(value)) return false;
    if (reads[id] !== 1 || kept.has(id) || varies(id)) return false;
    return !sources.isCheap(id) || (value.op === 'cast' && value.inputs.every(isFree));
  };
  /** The casts that are computed in the step of what they cast, by step. */
  const casts = new Map<number, number[]>();
  const stepOf = (id: number): number =>
    sources.isCheap(id) ? stepOf(graph.values[id]?.inputs[0] ?? -1) : (madeIn[id] ?? -1);
  for (const [id, value] of graph.values.entries()) {
    if (!isOutermostConcat(value) || replacing.has(id) || varies(id)) continue;
    const { inputs } = value;
    if (!inputs.every(isFree)) continue;
    const steps = inputs.map(stepOf);
    const last = Math.max(...steps);
    const passes = steps.some((step) => step !== madeIn[id]);
    const isReadInTime = (firstReads[id] ?? 0) > last;
    const byteLengths = inputs.map((input) => byteLengthOf(graph, input));
    if (!passes || !isReadInTime || !areAligned(byteLengths, alignment)) continue;
    concats.set(id, inputs);
    madeIn[id] = last;
    for (const [place, input] of inputs.entries()) {
      const { [place]: step = -1 } = steps;
      if (sources.isCheap(input)) casts.set(step, [...(casts.get(step) ?? []), input]);
    }
  }
  return { draft: concats.size === 0 ? draft : changed(draft, concats, casts), concats };
}

/** Whether a value is a concatenation whose inputs lie one after another in it. */
function isOutermostConcat(value: Value): value is Extract<Value, { op: 'concat' }> {
  return (
    value.op === 'concat' && value.shape.slice(0, value.params.dim).every((size) => size === 1)
  );
}

interface Uses {
  /** By value, the step that makes it. -1 if there is none. */
  readonly madeIn: Int32Array;
  /** By value, the first step that reads it. Infinity if there is none. */
  readonly firstReads: Float64Array;
  /** By value, how often it is read. */
  readonly reads: Uint32Array;
}

function usesOf({ values }: ValueGraph, draft: readonly DraftStep[], sources: Sources): Uses {
  const madeIn = new Int32Array(values.length).fill(-1);
  const firstReads = new Float64Array(values.length).fill(Infinity);
  const reads = new Uint32Array(values.length);
  const read = (id: number, step: number): void => {
    firstReads[id] = Math.min(firstReads[id] ?? step, step);
    reads[id] = (reads[id] ?? 0) + 1;
  };
  for (const [index, step] of draft.entries()) {
    if (step.kind === 'wait') continue;
    if (step.kind === 'size') {
      for (const id of step.values) read(id, index);
      continue;
    }
    for (const id of step.values) {
      madeIn[id] = index;
      for (const source of sources.of(id)) read(source, index);
    }
  }
  return { madeIn, firstReads, reads };
}

/** Whether each of these values, which lie one after another, begins at a multiple of the alignment. */
function areAligned(byteLengths: readonly number[], alignment: number): boolean {
  let byteOffset = 0;
  return byteLengths.every((byteLength) => {
    if (byteOffset % alignment !== 0) return false;
    byteOffset += byteLength;
    return byteLength > 0;
  });
}

/** The draft without the concatenations and with the casts, and without steps that have no values left. */
function changed(
  draft: readonly DraftStep[],
  concats: ConcatsInPlace,
  casts: ReadonlyMap<number, readonly number[]>,
): readonly DraftStep[] {
  return draft.flatMap((step, index): DraftStep | DraftStep[] => {
    if (step.kind !== 'compute') return step;
    const values = step.values.filter((id) => !concats.has(id));
    values.push(...(casts.get(index) ?? []));
    return values.length === 0 ? [] : { ...step, values };
  });
}
