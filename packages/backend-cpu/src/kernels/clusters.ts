import { isComputed, type KernelGraph, type LoopNode, type RowNode } from './kernel-graph.ts';
import { normGradients } from './norm-gradients.ts';
import { hasEdges, isEdgeInput, isEdgeLoop } from './row-edges.ts';

/**
 * The most nodes of a fused loop. This is enough for all chains met in practice, and longer loops would only spill
 * registers.
 */
const MAX_NODES = 192;
const MAX_OPERANDS = 48;

interface Edge {
  readonly from: number;
  readonly to: number;
  /** Whether both ends may run in one loop: they touch the same element in the same iteration. */
  readonly isElementwise: boolean;
}

/**
 * Groups the loops of a graph into fused loops. `order` has pairs of nodes of which the first must
 * not run after the second. Returns groups of node ids in an order in which they can run.
 */
export function clusterLoops(
  graph: KernelGraph,
  live: ReadonlySet<number>,
  order: readonly Edge[],
): number[][] {
  const clustering = new Clustering(graph, live, order);
  clustering.mergeNormGradients();
  clustering.mergeRowEdges();
  clustering.mergeProducers();
  clustering.mergeSiblings();
  return clustering.inOrder();
}

export type { Edge };

class Clustering {
  readonly #graph: KernelGraph;
  readonly #edges: readonly Edge[];
  readonly #clusterOf = new Map<number, number>();
  readonly #members = new Map<number, number[]>();
  readonly #outgoing = new Map<number, Edge[]>();

  constructor(graph: KernelGraph, live: ReadonlySet<number>, order: readonly Edge[]) {
    this.#graph = graph;
    const edges: Edge[] = [...order];
    for (const id of live) {
      const node = graph.node(id);
      if (!isComputed(node)) continue;
      this.#clusterOf.set(id, id);
      this.#members.set(id, [id]);
      for (const { node: from, access } of node.inputs) {
        const isElementwise =
          access.kind === 'element' && (node.kind === 'loop' || isEdgeInput(graph, node, from));
        edges.push({ from, to: id, isElementwise });
      }
    }
    this.#edges = edges.filter(({ from }) => this.#clusterOf.has(from));
    for (const edge of this.#edges) {
      const known = this.#outgoing.get(edge.from);
      if (known) known.push(edge);
      else this.#outgoing.set(edge.from, [edge]);
    }
  }

  mergeNormGradients(): void {
    for (const { input, weight, bias } of normGradients(this.#graph, this.#clusterOf.keys())) {
      if (weight) this.#join(input.id, weight.id);
      if (bias) this.#join(input.id, bias.id);
    }
  }

  /** Joins each row kernel with the conversions of its inputs, and with elementwise loops on its result. */
  mergeRowEdges(): void {
    for (const id of this.#clusterOf.keys()) {
      const row = this.#graph.node(id);
      if (row.kind !== 'row') continue;
      for (const { node } of row.inputs) {
        // A conversion that belongs to other rows stays with them, because a group has the rows of only one kernel.
        const isFree = this.#members.get(this.#clusterIdOf(node))?.length === 1;
        if (isFree && isEdgeInput(this.#graph, row, node) && this.#isReadOnlyBy(node, id)) {
          this.#join(this.#clusterIdOf(node), this.#clusterIdOf(id));
        }
      }
      if (!hasEdges(row)) continue;
      for (const next of this.#edgeLoops(row)) {
        this.#join(this.#clusterIdOf(id), this.#clusterIdOf(next));
      }
    }
  }

  #isReadOnlyBy(node: number, reader: number): boolean {
    const cluster = this.#clusterOf.get(reader);
    const edges = this.#outgoing.get(node) ?? [];
    const isStored = [...this.#graph.stores.values()].includes(node);
    return !isStored && edges.every(({ to }) => this.#clusterOf.get(to) === cluster);
  }

  /**
   * Yields loops on the elements of a row's result, loops on their results, and loops that only these read. The caller
   * joins each loop before the next one is looked for.
   */
  *#edgeLoops(row: RowNode): Generator<number> {
    const isOwn = (id: number): boolean => this.#clusterOf.get(id) === this.#clusterOf.get(row.id);
    const isFree = (id: number): boolean =>
      this.#members.get(this.#clusterIdOf(id))?.length === 1 && isEdgeLoop(this.#graph, row, id);
    const known = new Set([row.id]);
    for (const from of known) {
      for (const { to, isElementwise } of this.#outgoing.get(from) ?? []) {
        if (known.has(to) || !isElementwise || !isFree(to)) continue;
        yield to;
        if (isOwn(to)) known.add(to);
      }
      if (from === row.id) continue;
      for (const { node } of this.#graph.node(from).inputs) {
        if (known.has(node) || !isFree(node) || !this.#isReadOnlyBy(node, row.id)) continue;
        yield node;
        if (isOwn(node)) known.add(node);
      }
    }
  }

  #clusterIdOf(node: number): number {
    return this.#clusterOf.get(node) ?? node;
  }

  mergeProducers(): void {
    for (const { from, to, isElementwise } of this.#edges) if (isElementwise) this.#merge(from, to);
  }

  /** Merges loops that read the same memory, so that it is read once. */
  mergeSiblings(): void {
    const lastReader = new Map<number, number>();
    for (const id of this.#clusterOf.keys()) {
      const node = this.#graph.node(id);
      for (const { node: input, access } of node.inputs) {
        if (node.kind !== 'loop' || access.kind !== 'element') continue;
        const sibling = lastReader.get(input);
        if (sibling !== undefined) this.#merge(sibling, id);
        lastReader.set(input, id);
      }
    }
  }

  inOrder(): number[][] {
    const waiting = new Map<number, number>();
    for (const cluster of this.#members.keys()) waiting.set(cluster, 0);
    for (const cluster of this.#members.keys()) {
      for (const next of this.#successors(cluster)) waiting.set(next, (waiting.get(next) ?? 0) + 1);
    }
    const ready = [...waiting].filter(([, count]) => count === 0).map(([cluster]) => cluster);
    const groups: number[][] = [];
    for (const cluster of ready) {
      groups.push(this.#membersOf(cluster).sort((a, b) => a - b));
      for (const next of this.#successors(cluster)) {
        const left = (waiting.get(next) ?? 0) - 1;
        waiting.set(next, left);
        if (left === 0) ready.push(next);
      }
    }
    const placed = groups.reduce((sum, { length }) => sum + length, 0);
    if (placed !== this.#clusterOf.size) throw new RangeError('loops that wait for each other');
    return groups;
  }

  #merge(a: number, b: number): void {
    const from = this.#clusterOf.get(a);
    const to = this.#clusterOf.get(b);
    if (from !== undefined && to !== undefined && from !== to && this.#fits(from, to)) {
      this.#join(from, to);
    }
  }

  /** Makes two clusters one, unless something must happen between them. */
  #join(from: number, to: number): void {
    if (from === to || this.#isApart(from, to) || this.#isApart(to, from)) return;
    const moved = this.#membersOf(to);
    this.#membersOf(from).push(...moved);
    for (const node of moved) this.#clusterOf.set(node, from);
    this.#members.delete(to);
  }

  #fits(a: number, b: number): boolean {
    const nodes = [...this.#membersOf(a), ...this.#membersOf(b)];
    const loops = nodes.map((id) => this.#graph.node(id)).filter((node) => node.kind === 'loop');
    const [first] = loops;
    if (!first || loops.length < nodes.length || nodes.length > MAX_NODES) return false;
    const columns = new Set(loops.flatMap((loop) => loop.columns ?? []));
    return (
      columns.size <= 1 &&
      loops.every((loop) => loop.elements === first.elements) &&
      operands(loops) <= MAX_OPERANDS
    );
  }

  /** Whether something must happen between the loops `from` and `to`. */
  #isApart(from: number, to: number): boolean {
    const seen = new Set<number>([from]);
    const path: number[] = [];
    for (const node of this.#membersOf(from)) {
      for (const edge of this.#outgoing.get(node) ?? []) {
        const next = this.#clusterOf.get(edge.to);
        if (next === to && !edge.isElementwise) return true;
        if (next === undefined || next === to || seen.has(next)) continue;
        seen.add(next);
        path.push(next);
      }
    }
    for (const cluster of path) {
      for (const next of this.#successors(cluster)) {
        if (next === to) return true;
        if (seen.has(next)) continue;
        seen.add(next);
        path.push(next);
      }
    }
    return false;
  }

  #successors(cluster: number): Set<number> {
    const next = new Set<number>();
    for (const node of this.#membersOf(cluster)) {
      for (const edge of this.#outgoing.get(node) ?? []) {
        const target = this.#clusterOf.get(edge.to);
        if (target !== undefined && target !== cluster) next.add(target);
      }
    }
    return next;
  }

  #membersOf(cluster: number): number[] {
    return this.#members.get(cluster) ?? [];
  }
}

/** The most addresses that the loops can read. */
function operands(loops: readonly LoopNode[]): number {
  const own = new Set(loops.map(({ id }) => id));
  const read = loops.flatMap(({ inputs }) => inputs.map(({ node }) => node));
  return new Set(read.filter((node) => !own.has(node))).size;
}
