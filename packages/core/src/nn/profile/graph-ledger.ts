import { elementCount } from '../../base/shape.ts';
import { newestNodeId } from '../../graph/create-node.ts';
import type { GraphObserver } from '../../graph/graph-observer.ts';
import type { Node } from '../../graph/node.ts';
import { observeGraph } from '../../graph/observe-graph.ts';
import { Tensor } from '../../tensor/tensor.ts';
import type { Module } from '../module/module.ts';
import { wrapForward } from '../summary/record-calls.ts';
import { type FlopConvention, layerRule, type NodeFlops, nodeFlops } from './flop-rules.ts';

/**
 * The part of a step to which a value belongs. 'recomputation' is what a backward pass computes again of the forward
 * pass. 'optimizer' is the update, and what is computed of gradients before it, such as their norm. 'forward' is the
 * rest.
 */
export type Phase = 'forward' | 'backward' | 'recomputation' | 'optimizer';

export const phases = ['forward', 'backward', 'recomputation', 'optimizer'] as const;

/** The operations of each phase, by the convention. `macs` are the multiply-adds of products. */
export type Work = Readonly<Record<Phase, { readonly flops: number; readonly macs: number }>>;

/** The modules whose calls a node was made in, outermost first. */
type Stack = readonly Module[];

const outside: Stack = [];

/** Changes of a value along the ids of nodes, in the order of the ids. */
class Marks<T> {
  readonly #ids: number[] = [];
  readonly #values: T[] = [];

  /** Nodes after `id` have this value, also those that had another one. */
  add(id: number, value: T): void {
    while ((this.#ids.at(-1) ?? 0) > id) {
      this.#ids.pop();
      this.#values.pop();
    }
    this.#ids.push(id);
    this.#values.push(value);
  }

  /** The value of the last mark before a node. */
  at(id: number): T | undefined {
    let [low, high] = [0, this.#ids.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((this.#ids[middle] ?? 0) < id) low = middle + 1;
      else high = middle;
    }
    return this.#values[low - 1];
  }
}

/**
 * Counts the operations of the programs that a rank runs, by module and phase. It counts what runs: recomputed values
 * count again, and values that nothing needs do not count. It ends with `close`.
 */
export class GraphLedger implements GraphObserver {
  readonly #convention: FlopConvention;
  readonly #isIgnored: (module: Module) => boolean;
  readonly #restores: (() => void)[];
  readonly #forward = new Marks<Stack>();
  readonly #gradients = new Marks<Stack>();
  readonly #passes: { readonly after: number; readonly to: number; readonly phase: Phase }[] = [];
  readonly #remade = new Map<number, number>();
  /** For the result of a layer that counts as a whole, what it counts beside its products. */
  readonly #ofLayers = new Map<number, number>();
  /** For the result of a function that pools, what it counts. */
  readonly #ofPools = new Map<number, number>();
  readonly #afterGradients = new Set<number>();
  readonly #calls = new Map<Module, number>();
  readonly #work = new Map<Module | null, Record<Phase, { flops: number; macs: number }>>();
  #stack: Stack = outside;

  constructor(
    modules: readonly Module[],
    convention: FlopConvention,
    isIgnored: (module: Module) => boolean = () => false,
  ) {
    this.#convention = convention;
    this.#isIgnored = isIgnored;
    this.#restores = modules.map((module) =>
      wrapForward(module, (call, inputs) => this.#during(module, call, inputs)),
    );
    this.#restores.push(observeGraph(this));
  }

  close(): void {
    for (const restore of this.#restores.splice(0).toReversed()) restore();
  }

  /** The work of a module with all modules that it calls. Null: of all that has run. */
  workOf(module: Module | null): Work {
    return this.#work.get(module) ?? noWork();
  }

  /** The number of calls of a module. */
  callsOf(module: Module): number {
    return this.#calls.get(module) ?? 0;
  }

  /** The modules in whose calls a node of a forward pass was made, outermost first. */
  modulesOf(node: Node): Stack {
    return this.#forward.at(node.id) ?? outside;
  }

  gradient(node: Node, olderId: number): void {
    this.#gradients.add(olderId, this.#stackOf(node.id));
    this.#gradients.add(newestNodeId(), outside);
  }

  backward(olderId: number): void {
    this.#pass(olderId, 'backward');
  }

  remade(node: Node, copy: Node): void {
    this.#remade.set(copy.id, this.#remade.get(node.id) ?? node.id);
  }

  update(olderId: number): void {
    this.#pass(olderId, 'optimizer');
  }

  pool(output: Node, input: Node): void {
    // A pool of windows of one element returns its input.
    if (output !== input) this.#ofPools.set(output.id, elementCount(input.shape));
  }

  run(nodes: readonly Node[]): void {
    for (const node of nodes) this.#count(node);
  }

  #during(module: Module, call: () => unknown, inputs: readonly unknown[]): unknown {
    const before = this.#stack;
    this.#enter([...before, module]);
    try {
      const output = call();
      this.#calls.set(module, this.callsOf(module) + 1);
      if (output instanceof Tensor) this.#noteLayer(module, inputs[0], output);
      return output;
    } finally {
      this.#enter(before);
    }
  }

  #enter(stack: Stack): void {
    this.#stack = stack;
    this.#forward.add(newestNodeId(), stack);
  }

  #noteLayer(module: Module, input: unknown, output: Tensor): void {
    const rule = this.#convention === 'pytorch' ? null : layerRule(module);
    if (rule === null || !(input instanceof Tensor) || output.node === input.node) return;
    this.#ofLayers.set(output.node.id, rule({ input: input.numel, output: output.numel }));
  }

  /** Passes may lie within each other, as an update during a backward pass does. Then the inner one has its nodes. */
  #pass(olderId: number, phase: Phase): void {
    this.#passes.push({ after: olderId, to: newestNodeId(), phase });
  }

  #passOf(id: number): Phase | undefined {
    return this.#passes.find(({ after, to }) => id > after && id <= to)?.phase;
  }

  #phaseOf(node: Node): Phase {
    if (this.#remade.has(node.id)) return 'recomputation';
    const phase = this.#passOf(node.id);
    if (phase !== undefined) return phase;
    const isAfter = node.inputs.some(
      ({ id }) => this.#afterGradients.has(id) || this.#passOf(id) === 'backward',
    );
    if (!isAfter) return 'forward';
    this.#afterGradients.add(node.id);
    return 'optimizer';
  }

  #stackOf(id: number): Stack {
    const made = this.#remade.get(id) ?? id;
    const ofGradient = this.#gradients.at(made) ?? outside;
    return ofGradient.length > 0 ? ofGradient : (this.#forward.at(made) ?? outside);
  }

  #count(node: Node): void {
    const phase = this.#phaseOf(node);
    const stack = this.#stackOf(node.id);
    const { flops, products } = this.#flopsOf(node, phase, stack);
    if (flops === 0 || stack.some(this.#isIgnored)) return;
    for (const module of [null, ...new Set(stack)]) {
      const work = this.#work.get(module) ?? noWork();
      this.#work.set(module, work);
      work[phase].flops += flops;
      work[phase].macs += products / 2;
    }
  }

  #flopsOf(node: Node, phase: Phase, stack: Stack): NodeFlops {
    const isForward = phase === 'forward' || phase === 'recomputation';
    const counted = nodeFlops(node, this.#convention, isForward);
    const innermost = stack.at(-1);
    if (this.#convention === 'pytorch' || !isForward) return counted;
    const made = this.#remade.get(node.id) ?? node.id;
    const { products } = counted;
    if (innermost === undefined || layerRule(innermost) === null) {
      const pooled = this.#ofPools.get(made);
      return pooled === undefined ? counted : { flops: pooled, products };
    }
    const beside = this.#ofLayers.get(made) ?? 0;
    return { flops: products + beside, products };
  }
}

function noWork(): Record<Phase, { flops: number; macs: number }> {
  const none = (): { flops: number; macs: number } => ({ flops: 0, macs: 0 });
  return { forward: none(), backward: none(), recomputation: none(), optimizer: none() };
}
