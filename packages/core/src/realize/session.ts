import { isOp, type Node } from '../graph/node.ts';
import { adoptStorage, hostBytes, moveToHost, moveToPage } from '../graph/ownership.ts';
import type { Page, PageStore } from '../paging/page.ts';
import type { Backend, Executable, Program } from '../spec/backend.ts';
import { TensorStateError } from '../spec/errors.ts';
import type { Mesh } from '../spec/mesh.ts';
import type { ProcessGroup } from '../spec/process-group.ts';
import { ExtendedMesh } from '../mesh.ts';
import { formatShape } from '../shape.ts';
import { count, record } from '../timeline.ts';
import { dependsOnUpdated, targetOf } from '../graph/updated-leaves.ts';
import { collect, type Subgraph } from './collect.ts';
import { execute, type RootResult } from './execute.ts';
import { freeReleased, restorePending, takePending } from './pending.ts';
import { makePlan, type Plan } from './plan.ts';
import { sameWords, Signatures } from './signature.ts';

/** Realizes graphs on one device; plans and compiled programs are kept by structure. */
export class Session {
  readonly backend: Backend;
  #mesh: Mesh;
  readonly #extensions = new Set<string>();
  readonly #plans = new Map<number, Plan[]>();
  readonly #programs = new Map<string, Executable>();
  readonly #stores: PageStore[] = [];
  readonly #signatures = new Signatures();
  /** Computed nodes that keep their graph, since a backward pass may come to them. */
  #graphHolders: WeakRef<Node>[] = [];
  #last: Promise<void> = Promise.resolve();

  constructor(backend: Backend, mesh: Mesh) {
    this.backend = backend;
    this.#mesh = mesh;
  }

  get mesh(): Mesh {
    return this.#mesh;
  }

  /** Gives the mesh one more group, that `make` returns; once for each name. A collective, where `make` is one. */
  async extendMesh(name: string, make: () => Promise<ProcessGroup>): Promise<void> {
    if (this.#extensions.has(name)) return;
    this.#extensions.add(name);
    this.#mesh = new ExtendedMesh(this.#mesh, name, await make());
  }

  /** The number by which ops name a store. */
  numberOf(store: PageStore): number {
    const known = this.#stores.indexOf(store);
    return known >= 0 ? known : this.#stores.push(store) - 1;
  }

  /** Computes `nodes` and all that is pending. Calls run one after another. */
  realize(nodes: readonly Node[]): Promise<void> {
    return this.#inOrder(() => this.#realizeNow(nodes));
  }

  /** Computes a node and copies its bytes; unless it is resident, it lives on the host from then on. */
  fetch(node: Node): Promise<Uint8Array> {
    return this.#inOrder(async () => {
      if (node.value === null) await this.#realizeNow([node]);
      const { value } = node;
      if (value?.kind === 'host') return hostBytes(value);
      if (value?.kind === 'paged') return pageBytes(value.page);
      if (value?.kind !== 'device') throw freedError(node);
      const bytes = await this.backend.read(value.storage.buffer);
      const holder = node.op === 'assign' ? targetOf(node) : node;
      if (!holder.resident) moveToHost(node, bytes);
      return bytes;
    });
  }

  /**
   * Moves a leaf's contents to a store; each run that needs them has them on the device for as long
   * as it needs them, and an update brings them back.
   */
  pageOut(leaf: Node, name: string, store: PageStore): Promise<void> {
    return this.#inOrder(async () => {
      const { value } = leaf;
      if (value?.kind === 'paged') return;
      if (value?.kind !== 'host' && value?.kind !== 'device') throw freedError(leaf);
      const { backend } = this;
      const bytes =
        value.kind === 'host'
          ? value.bytes
          : (backend.map(value.storage.buffer) ?? (await backend.read(value.storage.buffer)));
      moveToPage(leaf, await store.write(name, bytes));
      leaf.resident = false;
    });
  }

  /** An async function, so that errors of a realization carry the caller's line. */
  async #inOrder<T>(body: () => Promise<T>): Promise<T> {
    const before = this.#last;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#last = promise;
    await before;
    try {
      return await body();
    } finally {
      resolve();
    }
  }

  async #realizeNow(nodes: readonly Node[]): Promise<void> {
    const start = performance.now();
    const pending = takePending();
    try {
      const roots = [...new Set([...nodes, ...pending.keys()])].filter(
        (node) => node.value === null,
      );
      if (roots.length > 0) {
        const subgraph = collect(roots);
        const outputs = roots.filter((root) => root.op !== 'assign');
        const plan = await this.#planFor(subgraph, outputs, start);
        const results = await execute(plan, subgraph.leaves, {
          backend: this.backend,
          mesh: this.mesh,
          stores: this.#stores,
        });
        count('plansRun', 1);
        outputs.forEach((root, index) => {
          const result = results[index];
          if (result !== undefined) settle(root, result, subgraph.leaves);
        });
        const updates = roots.filter((root) => isOp(root, 'assign'));
        updates.forEach(settleAssign);
        this.#giveUpGraphs(outputs, updates.length > 0);
      }
    } catch (error) {
      restorePending(pending);
      throw error;
    }
    for (const settle of pending.values()) settle();
    freeReleased();
  }

  /** No backward pass can come to a node any more that was made of what has been updated since. */
  #giveUpGraphs(outputs: readonly Node[], updated: boolean): void {
    for (const node of outputs) {
      if (node.requiresGrad) this.#graphHolders.push(new WeakRef(node));
      else node.inputs = [];
    }
    if (!updated) return;
    this.#graphHolders = this.#graphHolders.filter((holder) => {
      const node = holder.deref();
      if (node === undefined) return false;
      if (!dependsOnUpdated(node)) return true;
      node.inputs = [];
      return false;
    });
  }

  async #planFor(subgraph: Subgraph, roots: readonly Node[], start: number): Promise<Plan> {
    const { hash, words } = this.#signatures.of(subgraph, roots);
    const known = this.#plans.get(hash)?.find((plan) => sameWords(plan.words, words));
    count('graphMs', record('graph', 'look up the plan', start));
    if (known !== undefined) return known;
    const compileStart = performance.now();
    const plan = await makePlan(subgraph, roots, words, this.backend, (program) =>
      this.#compile(program),
    );
    this.#plans.set(hash, [...(this.#plans.get(hash) ?? []), plan]);
    count('plansMade', 1);
    count('compileMs', record('graph', 'make a plan', compileStart));
    return plan;
  }

  async #compile(program: Program): Promise<Executable> {
    const key = programKey(program);
    const known = this.#programs.get(key);
    if (known !== undefined) return known;
    const executable = await this.backend.compile(program);
    this.#programs.set(key, executable);
    count('programsCompiled', 1);
    return executable;
  }
}

function settle(root: Node, result: RootResult, leaves: readonly Node[]): void {
  if (result.kind === 'storage') adoptStorage(root, result.storage);
  else if (result.kind === 'page') moveToPage(root, result.page);
  else shareLeaf(root, leaves[result.leaf]);
}

/** The target has the new value; the assign is another name of it. */
function settleAssign(assign: Node<'assign'>): void {
  const target = targetOf(assign);
  target.updatedAt = Math.max(target.updatedAt, assign.id);
  assign.value = target.value;
  assign.inputs = [target];
}

/** A root that is a leaf (a detached parameter) shares its memory. */
function shareLeaf(root: Node, leaf: Node | undefined): void {
  if (leaf?.value?.kind === 'device') adoptStorage(root, leaf.value.storage.share());
  else if (leaf?.value?.kind === 'host')
    root.value = { kind: 'host', bytes: hostBytes(leaf.value) };
  else root.value = leaf?.value ?? null;
}

async function pageBytes(page: Page): Promise<Uint8Array> {
  const bytes = new Uint8Array(page.byteLength);
  await page.read(bytes);
  return bytes;
}

function freedError(node: Node): TensorStateError {
  const by = node.value?.kind === 'freed' ? node.value.by : 'an earlier run';
  return new TensorStateError(
    {
      asked: `the data of a tensor of shape ${formatShape(node.shape)}`,
      found: `its memory was freed by ${by}`,
      todo: 'Read it before it is freed',
    },
    { shape: node.shape },
  );
}

/** JSON has no NaN and no infinities; constants may be any of them. */
function programKey(program: Program): string {
  return JSON.stringify(program, (_, value: unknown) =>
    typeof value === 'number' && !Number.isFinite(value) ? String(value) : value,
  );
}
