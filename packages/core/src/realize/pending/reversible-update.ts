import { maximum } from '../../graph/ops/elementwise.ts';
import { createNodeOf } from '../../graph/ops/ops.ts';
import { noGrad } from '../../graph/create-node.ts';
import { isOp, type HostValue, type Node } from '../../graph/node.ts';
import { adoptStorage, freeNode } from '../../graph/ownership.ts';
import type { Storage } from '../../graph/storage.ts';
import { targetOf } from '../../graph/updated-leaves.ts';
import { elementCount, formatShape } from '../../base/shape.ts';
import { dtypes } from '../../spec/dtype.ts';
import { TensorStateError } from '../../spec/errors.ts';
import { dropWork } from './pending.ts';
import type { PendingWork } from './pending-work.ts';
import type { Compute } from '../session.ts';

/** The former contents of a node, which are kept besides its present ones. */
type Kept =
  | { readonly kind: 'device'; readonly storage: Storage }
  | { readonly kind: 'host'; readonly value: HostValue };

interface Change {
  readonly update: Node;
  readonly leaf: Node;
  /** The node that computes the new contents. */
  readonly value: Node;
  readonly formerlyUpdatedAt: number;
  /** The former contents of the leaf. Null before the update is made. */
  former: Kept | null;
}

/**
 * Updates that can be undone, bit for bit, and made again. New contents are computed into memory of their own. The
 * former contents and the gradients are kept until `keep` is called.
 */
export class ReversibleUpdate {
  readonly #work: ReadonlyMap<Node, PendingWork>;
  readonly #changes: readonly Change[];
  /** The leaves that the expressions read, other than those that are updated. Their owners may free them. */
  readonly #read: readonly Node[];
  readonly #held = new Map<Node, Kept>();

  /** `work` is the work that `takingWork` has removed. Throws TensorStateError for contents in a store. */
  constructor(work: ReadonlyMap<Node, PendingWork>) {
    this.#work = work;
    this.#changes = [...work.keys()].flatMap((update) => {
      const [, value] = update.inputs;
      if (!isOp(update, 'assign') || value === undefined) return [];
      const leaf = targetOf(update);
      return [{ update, leaf, value, formerlyUpdatedAt: leaf.updatedAt, former: null }];
    });
    const updated = new Set(this.#changes.map(({ leaf }) => leaf));
    this.#read = leavesOf(this.#changes).filter((leaf) => !updated.has(leaf));
  }

  /** The bytes of the former contents and of gradients. */
  get keptBytes(): number {
    const nodes = [...this.#changes.map(({ leaf }) => leaf), ...this.#held.keys()];
    return nodes.reduce(
      (sum, { shape, dtype }) => sum + elementCount(shape) * dtypes[dtype].bytes,
      0,
    );
  }

  /** Makes the updates. If it fails, none of them is made. */
  async make(compute: Compute): Promise<void> {
    try {
      await this.#compute(compute);
    } catch (error) {
      dropWork(this.#work);
      throw error;
    }
    for (const node of this.#read) {
      const kept = keptOf(node);
      if (kept !== null) this.#held.set(node, kept);
    }
    for (const { outcome } of this.#work.values()) outcome.settled?.();
  }

  /** Undoes the updates. */
  back(): void {
    for (const { update, leaf, former, formerlyUpdatedAt } of this.#changes) {
      if (former === null) continue;
      giveBack(leaf, former);
      leaf.updatedAt = formerlyUpdatedAt;
      update.value = leaf.value;
    }
  }

  /** Makes undone updates again. Their expressions read the present contents of the leaves. */
  async makeAgain(compute: Compute): Promise<void> {
    const freed = this.#read.filter(({ value }) => value?.kind === 'freed');
    for (const node of freed) {
      const kept = this.#held.get(node);
      if (kept !== undefined) giveBack(node, kept);
    }
    await this.#compute(compute);
    for (const node of freed) freeNode(node, 'zeroGrad()');
  }

  /** Frees the former contents. The updates can no longer be undone. */
  keep(): void {
    const kept = [...this.#changes.map(({ former }) => former), ...this.#held.values()];
    for (const each of kept) if (each?.kind === 'device') each.storage.release();
    this.#held.clear();
  }

  async #compute(compute: Compute): Promise<void> {
    const made = noGrad(() => this.#changes.map(({ value }) => sameExpression(value)));
    await compute(made);
    for (const [index, change] of this.#changes.entries()) {
      const { leaf, update } = change;
      const node = made[index];
      if (node?.value?.kind !== 'device') throw new RangeError('an update without a value');
      change.former ??= keptOf(leaf);
      if (change.former === null) throw elsewhere(leaf);
      adoptStorage(leaf, node.value.storage.share());
      freeNode(node, 'the update that it was made for');
      leaf.updatedAt = Math.max(leaf.updatedAt, update.id);
      update.value = leaf.value;
      update.inputs = [leaf];
    }
  }
}

/** A node of its own with the same value, so that a run gives it memory of its own. */
function sameExpression(node: Node): Node {
  const { op, params, inputs, axisTypes } = node;
  // A value that is already there is copied by the maximum of itself, because x + 0 would lose the sign of a zero.
  if (node.value !== null) return maximum(node, node);
  return createNodeOf(op, params, inputs, axisTypes);
}

/** The nodes with contents that the new values are computed from. */
function leavesOf(changes: readonly Change[]): Node[] {
  const seen = new Set(changes.map(({ value }) => value));
  for (const node of seen)
    if (node.value === null) for (const input of node.inputs) seen.add(input);
  return [...seen].filter(({ value }) => value !== null);
}

function keptOf({ value }: Node): Kept | null {
  if (value?.kind === 'device') return { kind: 'device', storage: value.storage.share() };
  return value?.kind === 'host'
    ? { kind: 'host', value: { ...value, bytes: value.bytes.slice() } }
    : null;
}

function giveBack(node: Node, kept: Kept): void {
  if (kept.kind === 'device') {
    adoptStorage(node, kept.storage.share());
    return;
  }
  freeNode(node, 'an update that was taken back');
  node.value = { ...kept.value, bytes: kept.value.bytes.slice() };
}

function elsewhere({ shape }: Node): TensorStateError {
  return new TensorStateError(
    {
      asked: `to update a tensor of shape ${formatShape(shape)} such that it can be taken back`,
      found: 'its contents are in a store outside of the device',
      todo: 'Keep parameters and states on the device, or wait for the verdict before the step',
    },
    { shape },
  );
}
