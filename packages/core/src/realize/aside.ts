import { isOp, type Node } from '../graph/node.ts';
import { Storage } from '../graph/storage.ts';
import type { Backend } from '../spec/backend.ts';
import type { Mesh } from '../spec/mesh.ts';
import { count, record } from '../timeline.ts';
import type { collect, Subgraph } from './collect.ts';
import type { ExecutionPlan } from './execution-plan.ts';

/** Larger values are part of what is computed: ranks wait for an aside where it stands. */
const mostBytes = 64 * 1024;

type Told = Node<'allGather'> | Node<'broadcast'>;

/** What a run computes, and what it sends beside that. */
export interface Collected {
  readonly subgraph: Subgraph;
  readonly aside: Aside | null;
}

/** Collects by `collector` what `roots` need, but for one aside among them. Throws what it throws. */
export function collectApart(
  roots: readonly Node[],
  offered: readonly Node[],
  collector: typeof collect,
): Collected {
  const aside = roots.map(asideOf).find((each) => each !== null);
  if (aside !== undefined) {
    const isOther = (node: Node): boolean => node !== aside.root;
    const subgraph = collector(roots.filter(isOther), offered.filter(isOther));
    if (!aside.isIn(subgraph)) {
      // It stands for no value of the plan.
      aside.root.slot = -1;
      return { subgraph, aside };
    }
  }
  return { subgraph: collector(roots, offered), aside: null };
}

/** Whether a collective is called as it stands. */
function isTold(node: Node): node is Told {
  return isOp(node, 'broadcast') || (isOp(node, 'allGather') && node.params.dim === 0);
}

function asideOf(root: Node): Aside | null {
  const collectives: Told[] = [];
  let node: Node | undefined = root;
  for (; node?.value === null; [node] = node.inputs) {
    if (!isTold(node) || node.params.size === 1 || node.requiresGrad) return null;
    collectives.unshift(node);
  }
  if (node?.value?.kind !== 'host' || node.resident) return null;
  const aside = new Aside(root, collectives, node.value.bytes);
  return aside.byteLength > mostBytes ? null : aside;
}

/**
 * What ranks tell each other beside what a program computes, as in its first step: collectives of a few host values. It is
 * no part of the program's structure, so that a step with an aside has the plan of those without.
 */
export class Aside {
  readonly root: Node;
  /** Each takes what the one before brings. */
  readonly #collectives: readonly Told[];
  readonly #bytes: Uint8Array;

  constructor(root: Node, collectives: readonly Told[], bytes: Uint8Array) {
    this.root = root;
    this.#collectives = collectives;
    this.#bytes = bytes;
  }

  get byteLength(): number {
    return this.#collectives.reduce((bytes, each) => bytes * growthOf(each), this.#bytes.length);
  }

  /** Whether other nodes have a part in it. */
  isIn({ leaves, computed }: Subgraph): boolean {
    const others = new Set([...leaves, ...computed]);
    return this.#collectives.some((each) =>
      [each, ...each.inputs].some((node) => others.has(node)),
    );
  }

  /**
   * The step of a plan ahead of which it is sent: behind the collectives that come before it in the program. All ranks
   * call collectives in that order, also a rank whose runs end elsewhere.
   */
  stepIn({ steps, ids }: ExecutionPlan, { computed }: Subgraph): number {
    let last = -1;
    for (const { id, slot } of computed) {
      if (id < this.root.id) last = Math.max(last, ids[slot] ?? -1);
    }
    // Collectives have numbers, and start, in the order of the program.
    const isBefore = (id: number | undefined): boolean => id !== undefined && id <= last;
    return (
      1 +
      steps.findLastIndex(
        (step) => step.kind === 'start' && 'axis' in step.moved.params && isBefore(step.values[0]),
      )
    );
  }

  /** What the root gets. A collective. */
  async send(backend: Backend, mesh: Mesh): Promise<Storage> {
    const storage = Storage.allocate(backend, this.byteLength);
    try {
      const bytes = await this.#bring(mesh);
      const mapped = backend.map(storage.buffer);
      if (mapped === undefined) backend.write(storage.buffer, bytes);
      else mapped.set(bytes);
    } catch (error) {
      storage.release();
      throw error;
    }
    this.root.inputs = [];
    return storage;
  }

  async #bring(mesh: Mesh): Promise<Uint8Array> {
    let bytes = this.#bytes;
    for (const each of this.#collectives) {
      const start = performance.now();
      const { op, dtype, params } = each;
      const brought = { bytes: new Uint8Array(bytes.length * growthOf(each)), dtype };
      const group = mesh.group(params.axis);
      if (isOp(each, 'broadcast')) {
        brought.bytes.set(bytes);
        await group.broadcast(brought, each.params.root);
      } else await group.allGather({ bytes, dtype }, brought);
      bytes = brought.bytes;
      count('collectives', 1);
      count('collectiveBytes', bytes.length);
      record('collective', op, start, `${bytes.length} bytes`);
    }
    return bytes;
  }
}

/** How many times the bytes that it takes a collective brings. */
function growthOf({ op, params }: Told): number {
  return op === 'allGather' ? params.size : 1;
}
