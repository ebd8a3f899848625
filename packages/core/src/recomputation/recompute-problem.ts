/** A value of a forward pass that has memory of its own, as far as keeping, moving or recomputing it goes. */
interface PassValue {
  readonly bytes: number;
  /** What computing it once more takes, in floating-point operations or their like. */
  readonly cost: number;
  /**
   * The time in which it leaves the device, or comes back, in floating-point operations. Null: it does not leave, because
   * there is nowhere to go, or because its size is not known.
   */
  readonly moveCost: number | null;
  /** The values that it is computed from, by their indices, which are smaller. */
  readonly inputs: readonly number[];
  /** Whether the backward pass reads it. */
  readonly isSaved: boolean;
  /** Whether it is never recomputed, as values are that other ranks have sent. */
  readonly isFixed: boolean;
}

/** The values of a forward pass in program order, each of which is kept, moved off the device meanwhile, or recomputed. */
export interface RecomputeProblem {
  readonly values: readonly PassValue[];
  /** Whether the device computes while values leave and come back. */
  readonly overlapsMoves: boolean;
}

/** By value, how the backward pass finds it. Values that it needs and that are not here are recomputed. */
export type SavedValues = ReadonlyMap<number, 'keep' | 'offload'>;

/** What follows from saving some of the values. */
export interface Recomputation {
  /** Whether the backward pass recomputes the value. A value that is neither saved nor recomputed is not needed. */
  readonly isRecomputed: readonly boolean[];
  /** Whether the backward pass reads the value, to recompute others, too. */
  readonly isRead: readonly boolean[];
  /** Whether the value leaves the device, and comes back for the backward pass. */
  readonly isOffloaded: readonly boolean[];
  /**
   * For each value, the number of its stretch. Recomputing a stretch reads only its own values and saved ones, so that
   * nothing of one stretch is in memory while the backward pass is in another.
   */
  readonly stretches: readonly number[];
  /** The operations of what is recomputed. */
  readonly recomputeCost: number;
  /** The time in which the device waits for values that leave or come back, in operations. */
  readonly waitCost: number;
  /** The time that is lost in all. */
  readonly cost: number;
  /** The bytes that are kept, together with those of the stretch that the backward pass is in, when they are most. */
  readonly peakBytes: number;
}

/**
 * The share of the time of a move that the device loses even while it computes: it issues the move, and shares its memory's
 * bandwidth. Of two choices that wait for nothing, the one that moves less is then the better one.
 */
const ISSUE_SHARE = 1 / 64;

/** Says what the backward pass recomputes and what comes back if these values are saved. Fixed ones are kept, too. */
export function recomputationOf(problem: RecomputeProblem, saved: SavedValues): Recomputation {
  const { values } = problem;
  const wayOf = (index: number): 'keep' | 'offload' | undefined =>
    saved.get(index) ?? (values[index]?.isFixed === true ? 'keep' : undefined);
  const ways = values.map((_, index) => wayOf(index));
  const isRecomputed = values.map(({ isSaved }, index) => isSaved && ways[index] === undefined);
  const isRead = values.map(({ isSaved }) => isSaved);
  /** The last value that is recomputed from each, or reads it in the forward pass. */
  const lastUses = values.map((_, index) => index);
  for (let index = values.length - 1; index >= 0; index--) {
    for (const input of values[index]?.inputs ?? []) {
      lastUses[input] = Math.max(lastUses[input] ?? 0, index);
      if (isRecomputed[index] !== true) continue;
      isRead[input] = true;
      if (ways[input] === undefined) isRecomputed[input] = true;
    }
  }
  const isOffloaded = ways.map((way, index) => way === 'offload' && isRead[index] === true);
  const stretches = stretchesOf(values, isRecomputed, lastUses);
  const last = stretches.at(-1) ?? 0;
  /** The bytes of a stretch that are kept from there on, and those that are in memory only while the pass is there. */
  const keptBytes = new Float64Array(last + 1);
  const ownBytes = new Float64Array(last + 1);
  let recomputeCost = 0;
  for (const [index, { bytes, cost }] of values.entries()) {
    const stretch = stretches[index] ?? 0;
    if (isRecomputed[index] === true) {
      recomputeCost += cost;
      ownBytes[stretch] = (ownBytes[stretch] ?? 0) + bytes;
    } else if (isOffloaded[index] === true) {
      // It comes back while the backward pass is in the stretch after those that read it.
      const end = Math.min(last, (stretches[lastUses[index] ?? index] ?? 0) + 1);
      for (let at = stretch; at <= end; at++) ownBytes[at] = (ownBytes[at] ?? 0) + bytes;
    } else if (isRead[index] === true) {
      keptBytes[stretch] = (keptBytes[stretch] ?? 0) + bytes;
    }
  }
  let peakBytes = 0;
  let before = 0;
  for (const [stretch, bytes] of keptBytes.entries()) {
    before += bytes;
    peakBytes = Math.max(peakBytes, before + (ownBytes[stretch] ?? 0));
  }
  const waitCost = waitCostOf(problem, { isRecomputed, isOffloaded, lastUses });
  const cost = recomputeCost + waitCost;
  return { isRecomputed, isRead, isOffloaded, stretches, recomputeCost, waitCost, cost, peakBytes };
}

/** Numbers stretches: one ends where no value that is recomputed is used later. */
function stretchesOf(
  values: readonly PassValue[],
  isRecomputed: readonly boolean[],
  lastUses: readonly number[],
): readonly number[] {
  let reach = -1;
  let stretch = 0;
  return values.map((_, index) => {
    if (index > reach && index > 0) stretch++;
    if (isRecomputed[index] === true) reach = Math.max(reach, lastUses[index] ?? index);
    return stretch;
  });
}

/**
 * The time in which a pass waits for moves: values leave one after the other, each as soon as it is computed, and come back one
 * after the other, each while the backward pass is at the one before. A backward pass takes twice the operations of the forward
 * pass, and those of what it recomputes.
 */
function waitCostOf(
  { values, overlapsMoves }: RecomputeProblem,
  {
    isRecomputed,
    isOffloaded,
    lastUses,
  }: Pick<Recomputation, 'isRecomputed' | 'isOffloaded'> & { readonly lastUses: readonly number[] },
): number {
  const moved = [...values.keys()].filter((index) => isOffloaded[index] === true);
  if (moved.length === 0) return 0;
  const moveCostOf = (index: number): number => values[index]?.moveCost ?? 0;
  const total = 2 * moved.reduce((sum, index) => sum + moveCostOf(index), 0);
  if (!overlapsMoves) return total;
  let waited = 0;
  let now = 0;
  let free = 0;
  const waitUntil = (time: number): void => {
    waited += Math.max(0, time - now);
    now = Math.max(now, time);
  };
  for (const [index, { cost }] of values.entries()) {
    now += cost;
    if (isOffloaded[index] !== true) continue;
    // The memory of the value before is needed when the next one leaves.
    waitUntil(free);
    free = now + moveCostOf(index);
  }
  const returning = moved.toSorted((a, b) => (lastUses[b] ?? b) - (lastUses[a] ?? a));
  let next = 0;
  free += moveCostOf(returning[0] ?? -1);
  for (let index = values.length - 1; index >= 0; index--) {
    for (; lastUses[returning[next] ?? -1] === index; next++) {
      waitUntil(free);
      free = now + moveCostOf(returning[next + 1] ?? -1);
    }
    now += (isRecomputed[index] === true ? 3 : 2) * (values[index]?.cost ?? 0);
  }
  return waited + ISSUE_SHARE * total;
}

/** The values that are kept if nothing is recomputed, and nothing leaves. */
export function allSaved({ values }: RecomputeProblem): SavedValues {
  return savedAs(
    'keep',
    values.keys().filter((index) => values[index]?.isSaved === true),
  );
}

/** Saves values, all in one way. */
export function savedAs(way: 'keep' | 'offload', indices: Iterable<number>): SavedValues {
  return new Map(Array.from(indices, (index) => [index, way]));
}
