import { elementCount } from '../../base/shape.ts';
import type { Node } from '../../graph/node.ts';
import { observeGraph } from '../../graph/observe-graph.ts';
import { Tensor } from '../../tensor/tensor.ts';
import type { Module } from '../module/module.ts';
import { type FlopConvention, layerRule, type NodeFlops, nodeFlops } from './flop-rules.ts';
import { type GraphPlace, GraphPlaces, type ModuleStack, type Phase } from './graph-places.ts';

/** The operations of each phase, by the convention. `macs` are the multiply-adds of products. */
export type Work = Readonly<Record<Phase, { readonly flops: number; readonly macs: number }>>;

/**
 * Counts the operations of the programs that a rank runs, by module and phase. It counts what runs: recomputed values
 * count again, and values that nothing needs do not count. It ends with `close`.
 */
export class GraphLedger {
  readonly #convention: FlopConvention;
  readonly #isIgnored: (module: Module) => boolean;
  readonly #places: GraphPlaces;
  readonly #end: () => void;
  /** For the result of a layer that counts as a whole, what it counts beside its products. */
  readonly #ofLayers = new Map<number, number>();
  /** For the result of a function that pools, what it counts. */
  readonly #ofPools = new Map<number, number>();
  readonly #calls = new Map<Module, number>();
  readonly #work = new Map<Module | null, Record<Phase, { flops: number; macs: number }>>();

  constructor(
    modules: readonly Module[],
    convention: FlopConvention,
    isIgnored: (module: Module) => boolean = () => false,
  ) {
    this.#convention = convention;
    this.#isIgnored = isIgnored;
    this.#places = new GraphPlaces((module, [input], output) => {
      this.#calls.set(module, this.callsOf(module) + 1);
      if (output instanceof Tensor) this.#noteLayer(module, input, output);
    });
    for (const module of modules) this.#places.follow(module);
    this.#end = observeGraph({
      gradient: () => {},
      backward: () => {},
      remade: () => {},
      update: () => {},
      pool: (output, input) => {
        // A pool of windows of one element returns its input.
        if (output !== input) this.#ofPools.set(output.id, elementCount(input.shape));
      },
      run: (nodes) => nodes.forEach((node) => this.#count(node)),
    });
  }

  close(): void {
    this.#end();
    this.#places.close();
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
  modulesOf(node: Node): ModuleStack {
    return this.#places.modulesOf(node);
  }

  #noteLayer(module: Module, input: unknown, output: Tensor): void {
    const rule = this.#convention === 'pytorch' ? null : layerRule(module);
    if (rule === null || !(input instanceof Tensor) || output.node === input.node) return;
    this.#ofLayers.set(output.node.id, rule({ input: input.numel, output: output.numel }));
  }

  #count(node: Node): void {
    const place = this.#places.placeOf(node);
    const { modules, phase } = place;
    const { flops, products } = this.#flopsOf(node, place);
    if (flops === 0 || modules.some(this.#isIgnored)) return;
    for (const module of [null, ...new Set(modules)]) {
      const work = this.#work.get(module) ?? noWork();
      this.#work.set(module, work);
      work[phase].flops += flops;
      work[phase].macs += products / 2;
    }
  }

  #flopsOf(node: Node, { modules, phase }: GraphPlace): NodeFlops {
    const isForward = phase === 'forward' || phase === 'recomputation';
    const counted = nodeFlops(node, this.#convention, isForward);
    const innermost = modules.at(-1);
    if (this.#convention === 'pytorch' || !isForward) return counted;
    const made = this.#places.originOf(node);
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
