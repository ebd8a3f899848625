import { rankState } from '../../ambient.ts';
import type { Unissued } from '../../graph/collective-order.ts';
import { jointIdentity } from '../../graph/collective-identity.ts';
import { isOp, type Node } from '../../graph/node.ts';
import { markFailed, markIssued } from '../../graph/program-order.ts';
import { adoptStorage, moveToHost, moveToPage } from '../../graph/ownership.ts';
import { dependsOnUpdated, hasGivenUpGraph, targetOf } from '../../graph/updated-leaves.ts';
import type { PageSource, PageStore } from '../../paging/page.ts';
import type { Backend } from '../../spec/backend.ts';
import { IndexError, OutOfMemoryError, type TensorStateError } from '../../spec/errors.ts';
import type { Mesh } from '../../spec/mesh.ts';
import type { CallIdentity } from '../../spec/process-group.ts';
import { count } from '../../timeline.ts';
import { collect, type Subgraph } from '../collect/collect.ts';
import { execute } from './execute.ts';
import { type RootResult, RunFailure } from './run-failure.ts';
import type { Collected } from './out-of-plan-message.ts';
import { halfUpdated } from './half-updated.ts';
import { freeReleased, releasedNow, takePending } from '../pending/pending.ts';
import type { PendingWork } from '../pending/pending-work.ts';
import { PlanFailure } from '../plan/execution-plan.ts';
import { PlanCache } from '../cache/plan-cache.ts';
import { forgetValues, smallValues } from '../pending/small-values.ts';
import { numberLeaf, varyingConstants } from '../values/varying-numbers.ts';

/** The mesh and the stores that a run uses. */
export interface Surroundings {
  readonly mesh: Mesh;
  readonly stores: readonly (PageStore | PageSource)[];
}

/** The work that a program has built so far and that is not computed yet. */
export interface Backlog {
  readonly pending: ReadonlyMap<Node, PendingWork>;
  /** Nodes that nothing reads but what is pending. */
  readonly released: readonly Node[];
  /** Small values, which a run computes if they cost little. */
  readonly offered: readonly Node[];
  /** The collectives that have not been issued. A run issues those that come before its own. */
  readonly unissued: ReadonlyMap<Node, Unissued>;
}

export function takeBacklog(): Backlog {
  return {
    pending: takePending(),
    released: releasedNow(),
    offered: [...smallValues()],
    unissued: new Map(rankState.unissued),
  };
}

/** The work of one run. */
export interface Work extends Backlog {
  readonly roots: readonly Node[];
  /** The run issues all collectives with smaller ids than this. */
  readonly issues: number;
  /** Whether the program reads a value. */
  readonly isRead: boolean;
}

export interface RunOptions {
  /** Whether released nodes are freed after the run. Default: true. */
  readonly frees?: boolean;
  /** Whether the run issues all collectives of the backlog. Default: those that come before its own. */
  readonly issuesAll?: boolean;
}

const MIN_HOLDERS = 4096;

/** Programs with fewer ops are not cut into pieces. */
const MIN_OPS_IN_PIECES = 4096;

/** Realizes graphs on one device, one run after another. */
export class Realization {
  readonly #backend: Backend;
  readonly #plans: PlanCache;
  /** Computed nodes that keep their graph, because a backward pass may come to them. */
  #graphHolders: WeakRef<Node>[] = [];
  /** The number of holders from which on those that were garbage collected are removed. */
  #mostHolders = MIN_HOLDERS;
  #refusal: TensorStateError | null = null;

  /** `warn` is called with a message if the program does something that makes it slow. */
  constructor(backend: Backend, warn: (message: string) => void) {
    this.#backend = backend;
    this.#plans = new PlanCache(backend, warn);
  }

  /** Throws TensorStateError if an earlier run has left this rank's tensors half updated. */
  checkUsable(): void {
    if (this.#refusal !== null) throw this.#refusal;
  }

  /**
   * Refuses all further work, because something failed when some tensors were updated and others not. `unrelated` names
   * what failed if no update depends on it.
   */
  refuse(cause: unknown, unrelated: string | null = null): TensorStateError {
    return (this.#refusal ??= halfUpdated(cause, unrelated));
  }

  readonly #refuse: Realization['refuse'] = (...of) => this.refuse(...of);

  /**
   * Computes `nodes` and all pending work. Then, by default, it frees released nodes. If a run fails before it has
   * changed anything, the nodes that failed are given up, and the rest stays pending.
   */
  async run(
    nodes: readonly Node[],
    surroundings: Surroundings,
    backlog: Backlog = takeBacklog(),
    { frees = true, issuesAll = false }: RunOptions = {},
  ): Promise<void> {
    this.checkUsable();
    const start = performance.now();
    const { pending } = backlog;
    const roots = [...new Set([...nodes, ...pending.keys()])];
    const issues = issuesAll ? Infinity : 0;
    const isRead = nodes.length > 0;
    await this.#compute({ ...backlog, issues, isRead, roots }, surroundings, start);
    for (const { outcome } of pending.values()) outcome.settled?.();
    if (frees) freeReleased(backlog.released);
  }

  /** Gives up the pending nodes that read a value which an earlier run failed to compute. `error` is its error. */
  async giveUpUnreadable(error: unknown): Promise<void> {
    const { giveUpUnreadable } = await import('./failed-run.ts');
    const { pending } = takeBacklog();
    const roots = [...pending.keys()].filter(({ value }) => value === null);
    giveUpUnreadable({ roots, pending }, error, this.#refuse);
  }

  async #compute(all: Work, surroundings: Surroundings, start: number): Promise<void> {
    const roots = all.roots.filter(({ value }) => value === null);
    const work = { ...all, roots };
    const { issues } = work;
    const unissued = withoutValues(work.unissued);
    if (roots.length === 0 && (issues === 0 || unissued.size === 0)) return;
    const collected = await this.#collect({ ...work, unissued });
    const { subgraph } = collected;
    const { unread } = subgraph;
    const mayFailApart = unread.length > 0 && !roots.some(({ op }) => op === 'assign');
    const pendingRoots = mayFailApart ? roots.filter((root) => work.pending.has(root)) : roots;
    if (pendingRoots.length < roots.length) {
      // What the asked values do not need is computed apart from them, so that it does not fail if they fail.
      const earlier = {
        ...work,
        roots: pendingRoots,
        offered: [],
        issues: 1 + Math.max(...unread.map(({ id }) => id)),
      };
      await this.#compute(earlier, surroundings, start);
      await this.#compute(work, surroundings, performance.now());
      return;
    }
    const known = { ...work, unissued };
    const kept = await keptOf(known, subgraph);
    if (subgraph.computed.length >= MIN_OPS_IN_PIECES) {
      const { runInPieces } = await import('./run-in-pieces.ts');
      const ends = [...new Set([...roots, ...kept, ...unread])];
      const isDone = await runInPieces(known, subgraph, ends, {
        collect: (piece) => this.#collect(piece),
        run: (piece, own) => this.#runOne(piece, own, [], surroundings, performance.now()),
        bytesOf: (node) => this.#bytesOf(node),
      });
      if (isDone) return;
    }
    await this.#runOne(known, collected, kept, surroundings, start);
  }

  async #runOne(
    work: Work,
    collected: Collected,
    kept: readonly Node[],
    surroundings: Surroundings,
    start: number,
  ): Promise<void> {
    const { roots, offered } = work;
    const updates = roots.filter((root) => isOp(root, 'assign'));
    const { subgraph, message } = collected;
    const isPlanned = (root: Node): boolean => root.op !== 'assign' && root !== message?.root;
    const outputs = [...roots.filter(isPlanned), ...subgraph.taken, ...kept];
    try {
      const results = await this.#runPlan(collected, outputs, surroundings, start);
      count('plansRun', 1);
      rankState.observer?.run(subgraph.computed);
      this.#settle(outputs, results);
      subgraph.issued.forEach(markIssued);
    } catch (failure) {
      const cause = await causeOf(failure, subgraph);
      const { leaveFailedRun } = await import('./failed-run.ts');
      if (failure instanceof RunFailure && !failure.updated) this.#settle(outputs, failure.results);
      const error = leaveFailedRun({ failure, cause }, work, subgraph, this.#refuse);
      forgetValues(subgraph.taken);
      forgetValues(outputs.filter(({ value }) => value !== null));
      throw error;
    }
    updates.forEach(settleUpdate);
    this.#giveUpGraphs(outputs, updates.length > 0);
    forgetValues(updates.length > 0 ? offered : outputs);
  }

  /**
   * Runs the plan of a subgraph. If memory does not suffice, it collects garbage, which frees tensors that were
   * dropped, and tries again. If that fails, too, it tries once more with a plan that has no room for larger sizes.
   */
  async #runPlan(
    collected: Collected,
    outputs: readonly Node[],
    surroundings: Surroundings,
    start: number,
  ): Promise<readonly RootResult[]> {
    const { subgraph, message } = collected;
    const found = await this.#plans.planFor(subgraph, outputs, start);
    const numbers = varyingConstants(subgraph, found.varying).map(numberLeaf);
    const leaves = [...subgraph.leaves, ...numbers];
    const dueMessage = message && {
      step: message.stepIn(found.plan, subgraph),
      send: async () => {
        // The message may have been sent by a try that then ran out of memory.
        if (message.root.value !== null) return;
        const storage = await message.send(this.#backend, surroundings.mesh);
        this.#settle([message.root], [{ kind: 'storage', storage }]);
      },
    };
    const { senders } = found.plan;
    const identityOf = (ids: readonly number[]): CallIdentity | undefined =>
      jointIdentity(ids.map((id) => nodeAt(subgraph, senders.get(id))?.identity ?? null));
    const all = {
      backend: this.#backend,
      sizes: found.sizes,
      ...surroundings,
      dueMessage,
      identityOf,
    };
    try {
      return await execute(found.plan, leaves, all);
    } catch (failure) {
      if (shortageOf(failure) === null) throw failure;
      await (await import('./collect-garbage.ts')).collectGarbage();
    }
    try {
      return await execute(found.plan, leaves, all);
    } catch (failure) {
      const shortage = shortageOf(failure);
      if (shortage === null || !this.#plans.shrink(found, shortage)) throw failure;
      return this.#runPlan(collected, outputs, surroundings, performance.now());
    }
  }

  async #collect(work: Work): Promise<Collected> {
    const { roots } = work;
    try {
      const collected = roots.some(({ op }) => op === 'broadcast' || op === 'allGather')
        ? (await import('./out-of-plan-message.ts')).collectWithMessage(roots, work, collect)
        : { subgraph: collect(roots, work), message: null };
      for (const [node, error] of collected.subgraph.unreadable) markFailed(node, error);
      return collected;
    } catch (error) {
      const { giveUpUnreadable } = await import('./failed-run.ts');
      throw giveUpUnreadable(work, error, this.#refuse);
    }
  }

  /**
   * Gives nodes their values. If the device computes in host memory, small values move to the host heap, where the
   * garbage collector frees them.
   */
  #settle(outputs: readonly Node[], results: readonly (RootResult | null)[]): void {
    const small = smallValues();
    for (const [index, node] of outputs.entries()) {
      const result = results[index] ?? null;
      if (result === null) continue;
      if (result.kind === 'page') moveToPage(node, result.page);
      else adoptStorage(node, result.storage);
      const bytes = result.kind === 'storage' && small.has(node) ? this.#bytesOf(node) : undefined;
      if (bytes !== undefined) moveToHost(node, bytes.slice());
    }
  }

  #bytesOf({ value }: Node): Uint8Array | undefined {
    return value?.kind === 'device' ? this.#backend.map(value.storage.buffer) : undefined;
  }

  /** Cuts nodes off from graphs that read tensors which were updated since, because no backward pass can use these. */
  #giveUpGraphs(outputs: readonly Node[], updated: boolean): void {
    for (const node of outputs) {
      if (node.requiresGrad || node.region !== null) this.#graphHolders.push(new WeakRef(node));
      else node.inputs = [];
    }
    if (!updated) {
      if (this.#graphHolders.length < this.#mostHolders) return;
      this.#graphHolders = this.#graphHolders.filter((holder) => holder.deref() !== undefined);
      this.#mostHolders = Math.max(MIN_HOLDERS, 2 * this.#graphHolders.length);
      return;
    }
    this.#graphHolders = this.#graphHolders.filter((holder) => {
      const node = holder.deref();
      if (node === undefined || hasGivenUpGraph(node)) return false;
      if (!dependsOnUpdated(node)) return true;
      node.inputs = [];
      return false;
    });
  }
}

/**
 * The nodes besides the roots and the taken ones whose values a run keeps for the sake of its collectives. The code is
 * loaded only if there are any.
 */
async function keptOf(
  { roots, unissued, isRead }: Work,
  subgraph: Subgraph,
): Promise<readonly Node[]> {
  const { taken, results, issued } = subgraph;
  if (issued.length === 0) return [];
  const outputs = new Set([...roots, ...taken, ...results]);
  const { keptResults } = await import('./kept-results.ts');
  return [...results, ...keptResults({ subgraph, outputs, unissued, isRead })];
}

/** Those of some collectives that have not been issued since. */
function withoutValues(unissued: ReadonlyMap<Node, Unissued>): ReadonlyMap<Node, Unissued> {
  for (const node of unissued.keys()) {
    if (node.value === null) continue;
    return new Map([...unissued].filter(([each]) => each.value === null));
  }
  return unissued;
}

/** Why a run failed. The code that names the operation of an index is loaded only if an index was out of range. */
async function causeOf(failure: unknown, { computed }: Subgraph): Promise<unknown> {
  if (failure instanceof PlanFailure) return failure.cause;
  if (!(failure instanceof RunFailure)) return failure;
  const { cause } = failure;
  if (!(cause instanceof IndexError)) return cause;
  return (await import('./index-error.ts')).indexError(cause, failure, computed);
}

/** The computed node with this slot. */
function nodeAt({ leaves, computed }: Subgraph, slot: number | undefined): Node | undefined {
  return slot === undefined ? undefined : computed[slot - leaves.length];
}

/** The error if a run failed for lack of memory and can be tried again, because it has changed and started nothing. */
function shortageOf(failure: unknown): OutOfMemoryError | null {
  const isRun = failure instanceof RunFailure;
  const cause = isRun ? failure.cause : failure;
  const mayRepeat = !isRun || !(failure.updated || failure.started);
  return cause instanceof OutOfMemoryError && mayRepeat ? cause : null;
}

/** After an update was made, its target has the new value, and the assign node becomes another name of the target. */
function settleUpdate(update: Node<'assign'>): void {
  const target = targetOf(update);
  target.updatedAt = Math.max(target.updatedAt, update.id);
  update.value = target.value;
  update.inputs = [target];
}
