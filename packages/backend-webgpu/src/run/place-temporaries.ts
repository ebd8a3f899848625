import { type Lifetime, type PlacedLifetimes, placeLifetimes } from '@shardwise/core/base';
import type { KernelPlan } from '../plan/kernel-plan.ts';
import { wordsOf } from '../program/values.ts';

const ALIGNMENT_BYTES = 16;

/** Places the values that only kernels use. They take several pages, because no page may be larger than a binding. */
export function placeTemporaries(plan: KernelPlan, mostPageBytes: number): PlacedLifetimes {
  return placeLifetimes(lifetimesOf(plan), { alignmentBytes: ALIGNMENT_BYTES, mostPageBytes });
}

function lifetimesOf({ values, kernels, outputs, inPlace, faults }: KernelPlan): Lifetime[] {
  const elsewhere = new Set([
    ...outputs,
    ...inPlace.keys(),
    ...(faults === undefined ? [] : [faults]),
  ]);
  const first = new Map<number, number>();
  const last = new Map<number, number>();
  for (const [position, { reads, writes }] of kernels.entries()) {
    for (const id of writes) if (!first.has(id)) first.set(id, position);
    for (const id of [...reads, ...writes]) last.set(id, position);
  }
  return [...first].flatMap(([id, start]) => {
    if (elsewhere.has(id)) return [];
    return [{ id, byteLength: wordsOf(values, id) * 4, first: start, last: last.get(id) ?? start }];
  });
}
