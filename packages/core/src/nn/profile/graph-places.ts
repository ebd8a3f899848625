import { newestNodeId } from '../../graph/create-node.ts';
import type { GraphObserver } from '../../graph/graph-observer.ts';
import type { Node } from '../../graph/node.ts';
import { observeGraph } from '../../graph/observe-graph.ts';
import type { Module } from '../module/module.ts';
import { wrapForward } from '../summary/record-calls.ts';

/**
 * The part of a step to which a value belongs. 'recomputation' is what a backward pass computes again of the forward
 * pass. 'optimizer' is the update, and what is computed of gradients before it, such as their norm. 'forward' is the
 * rest.
 */
export type Phase = 'forward' | 'backward' | 'recomputation' | 'optimizer';

export const phases = ['forward', 'backward', 'recomputation', 'optimizer'] as const;

/** The modules whose calls a node was made in, outermost first. A gradient belongs where its forward pass does. */
export type ModuleStack = readonly Module[];

/** Where a node belongs. */
export interface GraphPlace {
  readonly modules: ModuleStack;
  readonly phase: Phase;
}

const outside: ModuleStack = [];

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

/** Is called with the inputs and the output of a call of a module. */
type CallListener = (module: Module, inputs: readonly unknown[], output: unknown) => void;

/** Follows a program, to say in which module and in which phase its nodes were made. It ends with `close`. */
export class GraphPlaces implements GraphObserver {
  readonly #onCall: CallListener;
  readonly #restores: (() => void)[];
  readonly #forward = new Marks<ModuleStack>();
  readonly #gradients = new Marks<ModuleStack>();
  readonly #passes: { readonly after: number; readonly to: number; readonly phase: Phase }[] = [];
  readonly #remade = new Map<number, number>();
  readonly #afterGradients = new Set<number>();
  #stack: ModuleStack = outside;

  constructor(onCall: CallListener = () => {}) {
    this.#onCall = onCall;
    this.#restores = [observeGraph(this)];
  }

  /** Also follows the calls of `module`. */
  follow(module: Module): void {
    this.#restores.push(wrapForward(module, (call, inputs) => this.#during(module, call, inputs)));
  }

  close(): void {
    for (const restore of this.#restores.splice(0).toReversed()) restore();
  }

  /** Returns where a node belongs. Ask for the nodes of a run in program order, and leave out none. */
  placeOf(node: Node): GraphPlace {
    return { modules: this.#modulesOf(node.id), phase: this.#phaseOf(node) };
  }

  /** The modules in whose calls a node of a forward pass was made, outermost first. */
  modulesOf(node: Node): ModuleStack {
    return this.#forward.at(node.id) ?? outside;
  }

  /** The id of the node that a node computes again, or its own. */
  originOf(node: Node): number {
    return this.#remade.get(node.id) ?? node.id;
  }

  gradient(node: Node, olderId: number): void {
    this.#gradients.add(olderId, this.#modulesOf(node.id));
    this.#gradients.add(newestNodeId(), outside);
  }

  backward(olderId: number): void {
    this.#pass(olderId, 'backward');
  }

  remade(node: Node, copy: Node): void {
    this.#remade.set(copy.id, this.originOf(node));
  }

  update(olderId: number): void {
    this.#pass(olderId, 'optimizer');
  }

  pool(): void {}

  run(): void {}

  #during(module: Module, call: () => unknown, inputs: readonly unknown[]): unknown {
    const before = this.#stack;
    this.#enter([...before, module]);
    try {
      const output = call();
      this.#onCall(module, inputs, output);
      return output;
    } finally {
      this.#enter(before);
    }
  }

  #enter(stack: ModuleStack): void {
    this.#stack = stack;
    this.#forward.add(newestNodeId(), stack);
  }

  /** Passes may lie within each other, as an update during a backward pass does. Then the inner one has its nodes. */
  #pass(olderId: number, phase: Phase): void {
    this.#passes.push({ after: olderId, to: newestNodeId(), phase });
  }

  #passOf(id: number): Phase | undefined {
    let phase: Phase | undefined;
    // Passes are in the order of their last nodes, so only the latest ones can have a recent node.
    for (let index = this.#passes.length - 1; index >= 0; index--) {
      const pass = this.#passes[index];
      if (pass === undefined || pass.to < id) break;
      if (id > pass.after) phase = pass.phase;
    }
    return phase;
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

  #modulesOf(id: number): ModuleStack {
    const made = this.#remade.get(id) ?? id;
    const ofGradient = this.#gradients.at(made) ?? outside;
    return ofGradient.length > 0 ? ofGradient : (this.#forward.at(made) ?? outside);
  }
}
