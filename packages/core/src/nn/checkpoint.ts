import { RecomputeRegion, type RecomputeOptions } from '../autograd/recompute.ts';
import { pageIn, pageOut } from '../graph/ops/transfer.ts';
import { isGradEnabled, newestNodeId, noGrad } from '../graph/create-node.ts';
import type { Node } from '../graph/node.ts';
import { ops } from '../graph/ops/ops.ts';
import type { PageStore } from '../paging/page.ts';
import { currentSession } from '../rank.ts';
import { ConfigError } from '../spec/errors.ts';
import type { Op } from '../spec/op.ts';
import { Tensor } from '../tensor/tensor.ts';
import { checkOptions } from '../base/check-options.ts';
import * as option from '../base/option-rules.ts';
import type { OptionRule, OptionRules } from '../base/option-rules.ts';

/** Decides what happens to the value of a node between the forward pass and its use in the backward pass. */
export type CheckpointPolicy = (node: {
  readonly op: Op;
  readonly shape: readonly number[];
}) => 'keep' | 'offload' | 'recompute';

/** A forward pass that a checkpoint has built. */
export interface CheckpointedPass {
  /** The nodes that the results are computed from in this pass, in the order of the program. */
  readonly members: readonly Node[];
  /** The nodes that leave the pass. They are not recomputed. */
  readonly results: ReadonlySet<Node>;
  /** Has the value of a node in a page until the backward pass reads it. Null: the pass has no pages. */
  readonly offload: ((node: Node) => void) | null;
}

/** What is recomputed of a pass, or comes back from pages. It is asked when a backward pass comes there. */
export type RecomputedNodes = Required<Pick<RecomputeOptions, 'keeps' | 'stretchOf'>>;

/** Chooses what checkpoints recompute and offload when all of their forward passes are known. */
export interface CheckpointBudget {
  choiceFor(pass: CheckpointedPass): RecomputedNodes;
}

/** Options of `checkpoint`. */
export interface CheckpointOptions {
  /**
   * What to do with each intermediate value, or a budget that decides it (`activationMemoryBudget`). Default: all of them are
   * computed again (full checkpointing).
   */
  readonly policy?: CheckpointPolicy | CheckpointBudget;
  /**
   * Where results, and values for which the policy says `offload`, are kept between the forward and the backward pass
   * (`hostPages()`, `filePages(directory)`). With a budget, only what the budget chooses is there. Default: results stay on
   * the device.
   */
  readonly pages?: PageStore;
}

const policyRule: OptionRule<CheckpointPolicy | CheckpointBudget> = {
  fits: (value): value is CheckpointPolicy | CheckpointBudget =>
    typeof value === 'function' ||
    (typeof value === 'object' && value !== null && 'choiceFor' in value),
  expected: 'a function of a node, or an activationMemoryBudget()',
};

const checkpointRules: OptionRules<CheckpointOptions> = {
  policy: policyRule,
  pages: option.object(),
};

/**
 * Activation checkpointing (torch.utils.checkpoint): the backward pass computes the intermediate values of `forward`
 * again, so that they take no memory until then. With `pages`, the values that the backward pass reads are moved off
 * the device meanwhile (DeepSpeed's cpu_checkpointing; with a policy that offloads everything, PyTorch's save_on_cpu).
 * Dropout draws the same numbers. Results and gradients have the same bits if the device rounds an expression in the
 * same way in every program (ONNX Runtime fuses some). A policy that offloads without `pages` is a ConfigError.
 */
export function checkpoint<T>(forward: () => T, options: CheckpointOptions = {}): T {
  checkOptions('checkpoint', options, checkpointRules);
  const { policy, pages } = options;
  if (typeof policy === 'object') return withinBudget(forward, policy, pages);
  const region = new RecomputeRegion({ keeps: (node) => policy?.(node) === 'keep' });
  const olderId = newestNodeId();
  const result = region.run(forward);
  const results = new Set(nodesIn(result));
  const members = policy === undefined ? results : membersOf(results, olderId);
  for (const node of members) {
    const isResult = results.has(node);
    // Nodes of a checkpoint inside this one are handled by that checkpoint.
    if (node.region !== region && !isResult) continue;
    const leaves = isResult ? pages !== undefined : policy?.(node) === 'offload';
    if (leaves) {
      if (pages === undefined) throw noPages();
      if (isGradEnabled()) offload(region, node, pages);
    } else if (isResult) region.keep(node);
  }
  return result;
}

function withinBudget<T>(forward: () => T, budget: CheckpointBudget, pages?: PageStore): T {
  let choice: RecomputedNodes | null = null;
  const region = new RecomputeRegion({
    keeps: (node) => choice?.keeps(node) ?? true,
    stretchOf: (node) => choice?.stretchOf(node) ?? 0,
  });
  const olderId = newestNodeId();
  const result = region.run(forward);
  const results = new Set(nodesIn(result));
  if (![...results].some(({ requiresGrad }) => requiresGrad)) return result;
  const members = [...membersOf(results, olderId)].filter((node) => node.region === region);
  choice = budget.choiceFor({
    members: members.toSorted((a, b) => a.id - b.id),
    results,
    offload: pages === undefined ? null : (node) => offload(region, node, pages),
  });
  return result;
}

/**
 * Keeps values that are expensive to compute again, such as products and received messages, and recomputes the rest.
 */
export const keepProducts: CheckpointPolicy = ({ op }) =>
  ops[op].isExpensive ? 'keep' : 'recompute';

/** Keeps the same values as keepProducts, but outside the device until backward. */
export const offloadProducts: CheckpointPolicy = ({ op }) =>
  ops[op].isExpensive ? 'offload' : 'recompute';

/** Has the backward pass read the value of a node from a page, to which the run moves it as soon as it is computed. */
function offload(region: RecomputeRegion, node: Node, pages: PageStore): void {
  const store = currentSession().numberOf(pages);
  const page = noGrad(() => pageOut(node, { store, name: null }));
  region.remake(node, { source: page, make: () => noGrad(() => pageIn(page)) });
}

function noPages(): ConfigError {
  return new ConfigError({
    asked: 'a checkpoint whose policy offloads values',
    found: 'no pages to keep them in',
    todo: 'Pass { pages: hostPages() } or pages in files, or have the policy keep them',
  });
}

/** The nodes that results are computed from, up to nodes that existed before. */
function membersOf(results: Iterable<Node>, olderId: number): ReadonlySet<Node> {
  const seen = new Set(results);
  for (const node of seen) {
    for (const input of node.inputs) if (input.id > olderId) seen.add(input);
  }
  return seen;
}

/** The nodes of tensors, and of tensors in lists and plain objects. */
function nodesIn(value: unknown): readonly Node[] {
  if (value instanceof Tensor) return [value.node];
  if (typeof value !== 'object' || value === null) return [];
  return Object.values(value).flatMap(nodesIn);
}
