import { type Node, noGrad, RecomputeRegion, Tensor } from '@shardwise/core';
import type { GradientGroup } from './gradient-group.ts';
import type { ShardedParameter } from './sharded-parameter.ts';

export interface ShardedUnitOptions {
  readonly name: string;
  readonly parameters: readonly ShardedParameter[];
  /** Of each parameter; those of a group are reduced together. */
  readonly groupOf: (parameter: ShardedParameter) => GradientGroup;
  /** Whether the whole parameters are given up after the forward pass, and collected again in backward. */
  readonly reshardAfterForward: boolean;
  /** Called when backward comes to this unit. */
  readonly onBackward: () => void;
}

/** Parameters that are whole together: those of a module, while its forward or backward pass runs. */
export class ShardedUnit {
  readonly name: string;
  readonly parameters: readonly ShardedParameter[];
  readonly #groupOf: (parameter: ShardedParameter) => GradientGroup;
  readonly #region: RecomputeRegion | null;
  #collected: readonly Node[] | null = null;
  #lastCollected: readonly Node[] = [];

  constructor(options: ShardedUnitOptions) {
    this.name = options.name;
    this.parameters = options.parameters;
    this.#groupOf = options.groupOf;
    this.#region = options.reshardAfterForward
      ? new RecomputeRegion({ keeps: () => false, onBackward: options.onBackward })
      : null;
  }

  /** Collects the parts in the program as it stands here: at their use, or ahead of it. */
  collect(): readonly Node[] {
    this.#collected ??= this.#make(() => this.parameters.map((parameter) => parameter.collect()));
    return this.#collected;
  }

  /** The same in a backward pass. */
  collectAgain(): void {
    this.#region?.prefetch(this.#lastCollected);
  }

  /** Forgets what was collected: the parameters may change. */
  release(): void {
    this.#collected = null;
  }

  /** Runs `body` with the whole parameters in the place of the parts. */
  whole<T>(body: () => T): T {
    const collected = this.collect();
    this.#lastCollected = collected;
    const leaves = this.#make(() =>
      this.parameters.map((parameter, index) => leafOf(parameter, collected[index])),
    );
    this.parameters.forEach((parameter, index) => {
      const leaf = leaves[index];
      if (leaf === undefined) return;
      this.#groupOf(parameter).watch(parameter, leaf);
      parameter.show(leaf);
    });
    try {
      return body();
    } finally {
      for (const parameter of this.parameters) parameter.show(null);
      if (this.#region !== null) this.release();
    }
  }

  #make<T>(body: () => T): T {
    return noGrad(() => (this.#region === null ? body() : this.#region.run(body)));
  }
}

/** A node of this pass alone: backward ends there. */
function leafOf(parameter: ShardedParameter, padded: Node | undefined): Node {
  if (padded === undefined) throw new RangeError('a parameter that was not collected');
  return new Tensor(parameter.wholeFrom(padded)).detach().node;
}
