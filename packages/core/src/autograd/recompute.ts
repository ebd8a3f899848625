import { rankState } from '../ambient.ts';
import { isUpdatedFor, updatedBeforeBackward } from '../graph/updated-leaves.ts';
import { currentEra, currentRegion, inRegion, makeNode, setEra } from '../graph/create-node.ts';
import { identityAgain } from '../graph/collective-identity.ts';
import type { Node, Region } from '../graph/node.ts';
import { withCollectiveOrder } from '../graph/program-order.ts';
import { checkOptions } from '../base/check-options.ts';
import * as option from '../base/option-rules.ts';
import type { OptionRules } from '../base/option-rules.ts';

export interface RecomputeOptions {
  /**
   * Whether the value of the forward pass is kept for the backward pass. Other nodes are recomputed. If regions are
   * nested, the inner one is asked first, and the outer one may still recompute a node that the inner one keeps.
   */
  readonly keeps: (node: Node) => boolean;
  /**
   * The number of the stretch of a node that is recomputed. Recomputing a stretch begins another era, and the backward
   * pass of what is kept begins none. Default: the region begins an era when the backward pass comes to it.
   */
  readonly stretchOf?: (node: Node) => number;
  /** Called when the backward pass comes to this region, before any of its nodes is recomputed. */
  readonly onBackward?: () => void;
  /** Called with each node that is recomputed, and the node that recomputes it. */
  readonly onRemade?: (node: Node, remade: Node) => void;
}

/** How a backward pass makes a value again: from what is kept of it. */
export interface Remake {
  readonly source: Node;
  readonly make: () => Node;
}

const regionRules: OptionRules<RecomputeOptions> = {
  keeps: option.required(option.callback()),
  stretchOf: option.callback(),
  onBackward: option.callback(),
  onRemade: option.callback(),
};

/**
 * A part of a forward pass of which the backward pass recomputes some values instead of having them kept (Chen
 * et al. 2016, "Training deep nets with sublinear memory cost"). It recomputes them by copies of the nodes. Random
 * numbers are the same, because they are functions of a key that is data. Updates of buffers are not repeated, because
 * no gradient reads them.
 */
export class RecomputeRegion implements Region {
  readonly #options: RecomputeOptions;
  readonly #kept = new WeakSet<Node>();
  readonly #copies = new Map<Node, Node>();
  readonly #remakes = new WeakMap<Node, Remake>();
  #outer: Region | null = null;

  constructor(options: RecomputeOptions) {
    checkOptions('RecomputeRegion', options, regionRules);
    this.#options = options;
  }

  /** Nodes made inside `body` belong to this region. */
  run<T>(body: () => T): T {
    this.#outer = currentRegion();
    return inRegion(this, body);
  }

  /** Keeps the value of a node that leaves the region, whatever `keeps` says. */
  keep(node: Node): void {
    this.#kept.add(node);
  }

  /** Has the backward pass recompute `node` by another expression of the same value. Call it only if there may be one. */
  remake(node: Node, by: Remake): void {
    this.#remakes.set(node, by);
  }

  /** Recomputes nodes before they are used, so that collectives among them start early. */
  prefetch(nodes: readonly Node[]): void {
    rankState.enteredRegions.add(this);
    for (const node of nodes) this.#copyOf(node);
  }

  substitute(node: Node): Node {
    if (!this.#isOpen) {
      this.#isOpen = true;
      rankState.enteredRegions.add(this);
      if (this.#options.stretchOf === undefined) setEra(currentEra() + 1);
      this.#options.onBackward?.();
    }
    return this.#copyOf(node);
  }

  remakes(node: Node): boolean {
    return this.#isKept(node) ? (this.#outer?.remakes(node) ?? false) : true;
  }

  sourceOf(node: Node): Node | null {
    return this.#remakes.get(node)?.source ?? null;
  }

  /** Drops the copies after a backward pass. */
  close(): void {
    this.#isOpen = false;
    this.#stretch = undefined;
    this.#copies.clear();
  }

  #isOpen = false;
  #stretch: number | undefined;

  #isKept(node: Node): boolean {
    return this.#kept.has(node) || this.#options.keeps(node);
  }

  #copyOf(node: Node): Node {
    if (isGiven(node)) return node;
    if (this.#isKept(node)) return this.#outer?.substitute(node) ?? node;
    const known = this.#copies.get(node);
    if (known !== undefined) return known;
    const remake = this.#remakes.get(node);
    if (remake === undefined) {
      const stretch = this.#options.stretchOf?.(node);
      if (stretch !== this.#stretch) setEra(currentEra() + 1);
      this.#stretch = stretch;
    }
    const copy = withCollectiveOrder('ifUsed', () => remake?.make() ?? copyOf(node));
    this.#copies.set(node, copy);
    this.#options.onRemade?.(node, copy);
    rankState.observer?.remade(node, copy);
    return copy;
  }
}

/**
 * Whether a node needs no copy. That a rank happens to have computed a node, because it has read it, does not count:
 * otherwise the backward passes of ranks that read different values would have different collectives.
 */
export function isGiven({ op, value, inputs }: Node): boolean {
  return value !== null && (op === 'input' || op === 'assign' || inputs.length === 0);
}

function copyOf(node: Node): Node {
  const { op, params, inputs, shape, dtype } = node;
  const updated = inputs.find((input) => isUpdatedFor(node, input));
  if (updated !== undefined) throw updatedBeforeBackward(node, updated);
  const copy = makeNode(op, params, inputs.map(substituted), shape, dtype, false);
  copy.site = node.site;
  copy.axisTypes = node.axisTypes;
  if (node.identity !== null) copy.identity = identityAgain(node.identity);
  return copy;
}

function substituted(node: Node): Node {
  return node.region?.substitute(node) ?? node;
}

/**
 * Wraps `gradientsOf` so that it reads recomputed values where the regions of a node and its inputs say so, or what
 * `substitute` returns.
 */
export function recomputing<T>(
  gradientsOf: (node: Node, gradient: Node, output: Node) => T,
  substitute: (node: Node) => Node = substituted,
) {
  return (node: Node, gradient: Node): T => {
    const output = substitute(node);
    const { inputs } = node;
    node.inputs = inputs.map(substitute);
    try {
      return gradientsOf(node, gradient, output);
    } finally {
      node.inputs = inputs;
    }
  };
}

/** Ends the recomputation of a backward pass. Call this when the pass is over. */
export function endRecomputation(): void {
  const { enteredRegions } = rankState;
  for (const region of enteredRegions) region.close();
  enteredRegions.clear();
  setEra(0);
}
