import type { KernelPlan } from './plan-kernels.ts';
import { wordsOf } from './plan-kernels.ts';

/** Where a temporary lies: in one of several buffers, since none may be larger than a binding. */
export interface ScratchPlace {
  readonly page: number;
  readonly byteOffset: number;
}

interface Lifetime {
  readonly id: number;
  readonly byteLength: number;
  readonly first: number;
  readonly last: number;
}

interface Placed extends Lifetime, ScratchPlace {}

const alignment = 16;

/** Places values that only kernels use such that those alive at once do not overlap: the largest first, in the lowest gap. */
export function placeTemporaries(
  plan: KernelPlan,
  mostPageBytes: number,
): { readonly places: ReadonlyMap<number, ScratchPlace>; readonly pageBytes: readonly number[] } {
  const placed: Placed[] = [];
  const lifetimes = lifetimesOf(plan).toSorted((a, b) => b.byteLength - a.byteLength);
  for (const lifetime of lifetimes) {
    for (let page = 0; ; page++) {
      const byteOffset = lowestGap(
        lifetime,
        placed.filter((other) => other.page === page),
      );
      if (byteOffset > 0 && byteOffset + lifetime.byteLength > mostPageBytes) continue;
      placed.push({ ...lifetime, page, byteOffset });
      break;
    }
  }
  const pageBytes: number[] = [];
  for (const { page, byteOffset, byteLength } of placed) {
    pageBytes[page] = Math.max(pageBytes[page] ?? 0, byteOffset + byteLength);
  }
  return { places: new Map(placed.map((place) => [place.id, place])), pageBytes };
}

function lowestGap(lifetime: Lifetime, page: readonly Placed[]): number {
  const neighbours = page
    .filter((other) => other.first <= lifetime.last && lifetime.first <= other.last)
    .toSorted((a, b) => a.byteOffset - b.byteOffset);
  let start = 0;
  for (const other of neighbours) {
    if (start + lifetime.byteLength <= other.byteOffset) break;
    start = Math.max(start, other.byteOffset + other.byteLength);
  }
  return start;
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
    const byteLength = Math.ceil((wordsOf(values, id) * 4) / alignment) * alignment;
    return [{ id, byteLength, first: start, last: last.get(id) ?? start }];
  });
}
