import { elementCount } from '../../base/shape.ts';
import { dtypes } from '../../spec/dtype.ts';
import { isOneMessage } from '../collect/one-message.ts';
import type { Sources } from './sources.ts';
import { isCompute, type Value, type ValueGraph } from '../values/values.ts';

/** A step of a plan before its program is compiled. Numbers are value ids. */
export type DraftStep =
  | { readonly kind: 'compute'; readonly values: readonly number[] }
  /** Starts, without waiting, a collective, all-reduces as one message, a transfer, or all refreshes of a bucket. */
  | { readonly kind: 'start'; readonly values: readonly number[] }
  | { readonly kind: 'wait'; readonly values: readonly number[] }
  /** Reads one of the graph's numbers of rows. `rowCount` is its index among them. */
  | { readonly kind: 'size'; readonly values: readonly number[]; readonly rowCount: number };

/**
 * The bytes of parameters that are updated in one segment before their all-gathers start. It is large enough for the
 * cost of a segment not to matter.
 */
const UPDATE_BYTES = 1024 * 1024;

/**
 * Cuts a graph into segments, in program order. A segment ends:
 * - where a collective needs one of its values, so that the collective starts as soon as its input exists. For rows
 *   that go to other ranks, values that the rows do not need are left for the next segment.
 * - where a value needs the result of a collective. A reduce-scatter, an all-gather of an updated parameter and a page
 *   on its way out hold memory, so they are waited for when the next one of these starts.
 * - where the backward pass begins to recompute a part of the forward pass. The recomputations of equal layers are then
 *   one program, and their intermediate values do not outlive their segments.
 * - before values that depend on a number of rows that the run computes, because the number must be read. `rowCountsOf`
 *   says on which of these numbers a value depends.
 */
export function segment(
  graph: ValueGraph,
  sources: Sources,
  rowCountsOf: (value: number) => readonly number[] = () => [],
): readonly DraftStep[] {
  const draft: DraftStep[] = [];
  const updates = new Set(graph.updates.map(({ value }) => value));
  const pinned = new Set([...graph.roots, ...updates, ...graph.rowCounts]);
  let open: number[] = [];
  let era = 0;
  /** By value, 1 if the value is in `open`. */
  const isOpen = new Uint8Array(graph.values.length);
  const startedIn = new Map<number, readonly number[]>();

  const close = (): void => {
    if (open.length > 0) lastCompute = draft.push({ kind: 'compute', values: open }) - 1;
    for (const id of open) isOpen[id] = 0;
    open = [];
  };
  // Rows go to other ranks in the middle of a pass and are needed soon. Values that they do not depend on are computed
  // while they travel.
  const carriesRows = (id: number): boolean => graph.values[id]?.op === 'allToAllRows';
  const closeFor = (inputs: readonly number[]): void => {
    const needed = new Set(inputs.filter((input) => isOpen[input] === 1));
    if (needed.size === 0) return;
    for (const id of open.toReversed()) {
      if (!needed.has(id)) continue;
      for (const source of sources.of(id)) if (isOpen[source] === 1) needed.add(source);
    }
    const later = open.filter((id) => !needed.has(id));
    open = open.filter((id) => needed.has(id));
    close();
    for (const id of later) isOpen[id] = 1;
    open = later;
  };
  const wait = (group: readonly number[]): void => {
    draft.push({ kind: 'wait', values: group });
    for (const id of group) startedIn.delete(id);
    for (const id of group) {
      for (const page of leaving.get(id) ?? []) start([page]);
      leaving.delete(id);
    }
  };
  const waitFor = (inputs: readonly number[]): void => {
    if (held.size > 0 && inputs.some((input) => held.has(input))) release();
    for (const input of inputs) {
      const source = leavesFrom.get(input);
      if (source !== undefined && leaving.has(source)) waitFor([source]);
    }
    for (const input of inputs) {
      const group = startedIn.get(input);
      if (group === undefined) continue;
      close();
      for (const each of startedWith(group)) wait(each);
    }
  };
  // The parameters of a layer are all-gathered together and used one after another. They are waited for together,
  // because waiting for each before its use would cut the layer into as many segments.
  const startedWith = (group: readonly number[]): (readonly number[])[] => {
    const isGather = (id: number): boolean => graph.values[id]?.op === 'allGather';
    let [first = -1] = group;
    if (!isGather(first)) return [group];
    while (isGather(first - 1)) first--;
    const together: (readonly number[])[] = [];
    for (let id = first; isGather(id); id++) {
      const each = startedIn.get(id);
      if (each !== undefined) together.push(each);
    }
    return together;
  };
  // Until it has been waited for, a reduce-scatter holds the memory of the whole, an all-gather of an updated parameter
  // that of the part, and a page on its way out that of a value that only this run has.
  const holdsUp = (id: number): boolean => {
    const { op, inputs: [source = -1] = [] } = graph.values[id] ?? {};
    // A value that outlives the run keeps its memory in any case.
    if (op === 'pageOut') return !pinned.has(source);
    return op === 'reduceScatter' || (op === 'allGather' && updates.has(id));
  };
  const start = (group: readonly number[]): void => {
    const inputs = group.flatMap((member) => graph.values[member]?.inputs ?? []);
    if (group.some(carriesRows)) closeFor(inputs);
    else if (inputs.some((input) => isOpen[input] === 1)) close();
    if (group.some(holdsUp)) waitForEarlier();
    if (group.some(holdsUp)) holding.push({ group, before: draft.length });
    draft.push({ kind: 'start', values: group });
    for (const member of group) startedIn.set(member, group);
  };
  // All-gathers of updated parameters are not urgent. They are held back, so that several parameters are updated in one
  // segment.
  let held = new Set<number>();
  let heldBytes = 0;
  const release = (): void => {
    const ids = held;
    held = new Set();
    heldBytes = 0;
    for (const id of ids) start([id]);
  };
  const hold = (id: number): void => {
    held.add(id);
    heldBytes += byteLengthOf(graph.values[id]);
    if (heldBytes >= UPDATE_BYTES) release();
  };
  // The result of a collective is paged out when something else has waited for the collective.
  const leaving = new Map<number, number[]>();
  const leavesFrom = new Map<number, number>();
  const leave = (page: number, [source = -1]: readonly number[]): boolean => {
    if (!startedIn.has(source)) return false;
    leaving.set(source, [...(leaving.get(source) ?? []), page]);
    leavesFrom.set(page, source);
    return true;
  };
  // The started groups that hold memory and may not have been waited for, with the number of steps before their start.
  let holding: { readonly group: readonly number[]; readonly before: number }[] = [];
  let lastCompute = -1;
  const waitForEarlier = (): void => {
    const earlier = holding.filter(({ before }) => before < lastCompute);
    holding = holding.filter(({ before }) => before >= lastCompute);
    for (const { group } of earlier) {
      const [first = -1] = group;
      if (holdsUp(first) && startedIn.has(first)) wait(group);
    }
  };

  const unread = new Set(graph.rowCounts.keys());
  const readCounts = (id: number): void => {
    for (const index of rowCountsOf(id)) {
      const count = graph.rowCounts[index];
      if (count === undefined || !unread.delete(index)) continue;
      waitFor([count]);
      if (isOpen[count] === 1) close();
      draft.push({ kind: 'size', values: [count], rowCount: index });
    }
  };

  for (let id = graph.leafCount; id < graph.values.length; id++) {
    const value = graph.values[id];
    if (value === undefined) break;
    if (isCompute(value)) {
      if (sources.isCheap(id) && !pinned.has(id) && sources.moversOf(id) === 0) continue;
      readCounts(id);
      waitFor(sources.of(id));
      if (graph.eras[id] !== era) close();
      era = graph.eras[id] ?? 0;
      open.push(id);
      isOpen[id] = 1;
      continue;
    }
    if (value.op === 'pageOut' && leave(id, value.inputs)) continue;
    const group = bucketFrom(graph, id);
    group.forEach(readCounts);
    const inputs = group.flatMap((member) => graph.values[member]?.inputs ?? []);
    waitFor(inputs);
    if (value.op === 'allGather' && updates.has(id)) {
      hold(id);
      continue;
    }
    release();
    start(group);
    id += group.length - 1;
  }
  release();
  close();
  // A wait may start the last pages that go out. They are added to `startedIn` while this loop runs.
  for (const group of startedIn.values()) wait(group);
  return draft;
}

function byteLengthOf(value: ValueGraph['values'][number] | undefined): number {
  return value === undefined ? 0 : elementCount(value.shape) * dtypes[value.dtype].bytes;
}

/** A value and those after it that travel with it: the all-reduces, or the refreshes, of one bucket. */
function bucketFrom({ values }: ValueGraph, id: number): number[] {
  const group = [id];
  const first = values[id];
  for (let next = id + 1; isOfBucket(first, values[next]); next++) group.push(next);
  return group;
}

function isOfBucket(first: Value | undefined, next: Value | undefined): boolean {
  if (first?.op === 'refresh' && next?.op === 'refresh') {
    const { source, bucket } = next.params;
    return source === first.params.source && bucket === first.params.bucket;
  }
  return first !== undefined && next !== undefined && isOneMessage(first, next);
}
