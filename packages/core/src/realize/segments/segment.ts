import { isOneMessage } from '../collect/one-message.ts';
import type { Sources } from './sources.ts';
import { byteLengthOf, isCompute, type Value, type ValueGraph } from '../values/values.ts';

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
 * - behind a value that goes to a page, whenever the program asked for it: its memory is then free when it has been read.
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
  const segmenter = new Segmenter(graph, sources, rowCountsOf);
  for (let id = graph.leafCount; id < graph.values.length;) id = segmenter.take(id);
  return segmenter.finish();
}

/** A started group that holds memory until it is waited for. */
interface StartedGroup {
  readonly group: readonly number[];
  /** The number of steps before its start. */
  readonly before: number;
}

/** Takes the values of a graph in program order, and drafts the steps that compute, start and wait. */
class Segmenter {
  readonly #draft: DraftStep[] = [];
  readonly #graph: ValueGraph;
  readonly #sources: Sources;
  readonly #rowCountsOf: (value: number) => readonly number[];
  readonly #updates: ReadonlySet<number>;
  /** Values that outlive the run. They keep their memory in any case. */
  readonly #pinned: ReadonlySet<number>;
  /** The values of the segment that is not complete yet, in program order. */
  #open = new Set<number>();
  #era = 0;
  /** The place of the latest step that computes. */
  #lastCompute = -1;
  /** The groups that have started and not been waited for, by each of their values. */
  readonly #startedIn = new Map<number, readonly number[]>();
  /** The started groups that hold memory. They may have been waited for. */
  #holding: StartedGroup[] = [];
  /** All-gathers of updated parameters that have not started, so that one segment updates several parameters. */
  #held = new Set<number>();
  #heldBytes = 0;
  /** The pages of values that are no leaves. They leave when these are computed, or something has waited for them. */
  readonly #pages: ReadonlySet<number>;
  readonly #pagesOf: ReadonlyMap<number, readonly number[]>;
  /** The numbers of rows that no step has read. */
  readonly #unread: Set<number>;

  constructor(
    graph: ValueGraph,
    sources: Sources,
    rowCountsOf: (value: number) => readonly number[],
  ) {
    this.#graph = graph;
    this.#sources = sources;
    this.#rowCountsOf = rowCountsOf;
    this.#updates = new Set(graph.updates.map(({ value }) => value));
    this.#pinned = new Set([...graph.roots, ...this.#updates, ...graph.rowCounts]);
    this.#unread = new Set(graph.rowCounts.keys());
    const sourceOf = (id: number): number => graph.values[id]?.inputs[0] ?? -1;
    const pages = graph.values.flatMap(({ op }, id) =>
      op === 'pageOut' && sourceOf(id) >= graph.leafCount ? id : [],
    );
    this.#pages = new Set(pages);
    this.#pagesOf = Map.groupBy(pages, sourceOf);
  }

  /** Takes the next value, and those that travel with it. Returns the value after them. */
  take(id: number): number {
    const value = this.#graph.values[id];
    if (value === undefined) return this.#graph.values.length;
    if (isCompute(value)) {
      this.#compute(id);
      return id + 1;
    }
    if (this.#pages.has(id)) return id + 1;
    const group = bucketFrom(this.#graph, id);
    for (const member of group) this.#readCounts(member);
    this.#waitFor(this.#inputsOf(group));
    if (value.op === 'allGather' && this.#updates.has(id)) {
      this.#hold(id);
      return id + 1;
    }
    this.#startHeld();
    this.#start(group);
    return id + group.length;
  }

  finish(): readonly DraftStep[] {
    this.#startHeld();
    this.#close();
    // A wait may start the last pages that go out. They are added to the map while this loop runs.
    for (const group of this.#startedIn.values()) this.#wait(group);
    return this.#draft;
  }

  #compute(id: number): void {
    const { eras } = this.#graph;
    const sources = this.#sources;
    // A cheap value is computed by each segment that reads it.
    if (sources.isCheap(id) && !this.#pinned.has(id) && sources.moversOf(id) === 0) return;
    this.#readCounts(id);
    this.#waitFor(sources.of(id));
    if (eras[id] !== this.#era) this.#close();
    this.#era = eras[id] ?? 0;
    this.#open.add(id);
    this.#leave(id);
  }

  #close(): void {
    const values = [...this.#open];
    if (values.length === 0) return;
    this.#open = new Set();
    this.#lastCompute = this.#draft.push({ kind: 'compute', values }) - 1;
  }

  /** Closes a segment of the values that `ids` need. The others are left for the next one. */
  #closeFor(ids: readonly number[]): void {
    const needed = new Set(ids.filter((id) => this.#open.has(id)));
    for (const id of [...this.#open].toReversed()) {
      if (!needed.has(id)) continue;
      for (const source of this.#sources.of(id)) if (this.#open.has(source)) needed.add(source);
    }
    const later = this.#open.difference(needed);
    this.#open = this.#open.difference(later);
    this.#close();
    this.#open = later;
  }

  #isOpen(ids: readonly number[]): boolean {
    return ids.some((id) => this.#open.has(id));
  }

  #start(group: readonly number[]): void {
    const inputs = this.#inputsOf(group);
    // Rows go to other ranks in the middle of a pass and are needed soon. Values that they do not depend on are
    // computed while they travel.
    if (group.some((id) => this.#graph.values[id]?.op === 'allToAllRows')) {
      this.#closeFor(inputs);
    } else if (this.#isOpen(inputs)) this.#close();
    if (group.some((id) => this.#holdsMemory(id))) {
      this.#waitForEarlier();
      this.#holding.push({ group, before: this.#draft.length });
    }
    this.#draft.push({ kind: 'start', values: group });
    for (const member of group) this.#startedIn.set(member, group);
  }

  #waitFor(ids: readonly number[]): void {
    // A page starts when something has waited for its value.
    const inputs = [...this.#inputsOf(ids.filter((id) => this.#pages.has(id))), ...ids];
    if (inputs.some((input) => this.#held.has(input))) this.#startHeld();
    for (const input of inputs) {
      const group = this.#startedIn.get(input);
      if (group === undefined) continue;
      this.#close();
      for (const each of this.#startedWith(group)) this.#wait(each);
    }
  }

  #wait(group: readonly number[]): void {
    this.#draft.push({ kind: 'wait', values: group });
    for (const id of group) {
      this.#startedIn.delete(id);
      this.#leave(id);
    }
  }

  /** Has the pages of a value that is there now leave. */
  #leave(id: number): void {
    for (const page of this.#pagesOf.get(id) ?? []) this.#start([page]);
  }

  /**
   * The groups to wait for together with one. The parameters of a layer are all-gathered together and used one after
   * another. Waiting for each before its use would cut the layer into as many segments.
   */
  #startedWith(group: readonly number[]): readonly (readonly number[])[] {
    const isGather = (id: number): boolean => this.#graph.values[id]?.op === 'allGather';
    let [first = -1] = group;
    if (!isGather(first)) return [group];
    while (isGather(first - 1)) first--;
    const together: (readonly number[])[] = [];
    for (let id = first; isGather(id); id++) {
      const each = this.#startedIn.get(id);
      if (each !== undefined) together.push(each);
    }
    return together;
  }

  /**
   * Whether a started value holds memory until it has been waited for: a reduce-scatter that of the whole, an all-gather
   * of an updated parameter that of the part, and a page on its way out that of a value that only this run has.
   */
  #holdsMemory(id: number): boolean {
    const { op, inputs: [source = -1] = [] } = this.#graph.values[id] ?? {};
    if (op === 'pageOut') return !this.#pinned.has(source);
    return op === 'reduceScatter' || (op === 'allGather' && this.#updates.has(id));
  }

  /** Waits for the groups that hold memory and started before the latest step that computes. */
  #waitForEarlier(): void {
    const earlier = this.#holding.filter(({ before }) => before < this.#lastCompute);
    this.#holding = this.#holding.filter(({ before }) => before >= this.#lastCompute);
    for (const { group } of earlier) {
      const [first = -1] = group;
      if (this.#holdsMemory(first) && this.#startedIn.has(first)) this.#wait(group);
    }
  }

  #hold(id: number): void {
    this.#held.add(id);
    this.#heldBytes += byteLengthOf(this.#graph, id);
    if (this.#heldBytes >= UPDATE_BYTES) this.#startHeld();
  }

  #startHeld(): void {
    const ids = this.#held;
    this.#held = new Set();
    this.#heldBytes = 0;
    for (const id of ids) this.#start([id]);
  }

  /** Reads the numbers of rows on which a value depends. */
  #readCounts(id: number): void {
    for (const index of this.#rowCountsOf(id)) {
      const count = this.#graph.rowCounts[index];
      if (count === undefined || !this.#unread.delete(index)) continue;
      this.#waitFor([count]);
      if (this.#open.has(count)) this.#close();
      this.#draft.push({ kind: 'size', values: [count], rowCount: index });
    }
  }

  #inputsOf(group: readonly number[]): readonly number[] {
    return group.flatMap((member) => this.#graph.values[member]?.inputs ?? []);
  }
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
