import {
  allGather,
  axisOf,
  currentSession,
  type Node,
  noGrad,
  RecomputeRegion,
  Tensor,
} from '@shardwise/core';
import type { AfterForward } from './after-forward.ts';
import type { GradientGroup } from './gradient-group.ts';
import type { ShardedParameter } from './sharded-parameter.ts';

export interface ShardedUnitOptions {
  readonly name: string;
  readonly parameters: readonly ShardedParameter[];
  /** Of each parameter; those of a group are reduced together. */
  readonly groupOf: (parameter: ShardedParameter) => GradientGroup;
  /** What is not kept is collected again in backward. */
  readonly afterForward: AfterForward;
  /** Called when backward comes to this unit. */
  readonly onBackward: () => void;
}

/** Parameters that are whole together: those of a module, while its forward or backward pass runs. */
export class ShardedUnit {
  readonly name: string;
  readonly parameters: readonly ShardedParameter[];
  readonly #groupOf: (parameter: ShardedParameter) => GradientGroup;
  readonly #afterForward: AfterForward;
  readonly #region: RecomputeRegion | null;
  #collected: readonly Node[] | null = null;
  #lastCollected: readonly Node[] = [];

  constructor(options: ShardedUnitOptions) {
    this.name = options.name;
    this.parameters = options.parameters;
    this.#groupOf = options.groupOf;
    this.#afterForward = options.afterForward;
    this.#region =
      options.afterForward.kind === 'keep'
        ? null
        : new RecomputeRegion({ keeps: () => false, onBackward: options.onBackward });
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
    for (const padded of collected) this.#share(padded);
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

  /** Keeps this rank's part of what was collected, from which the ranks next to it make it again. */
  #share(padded: Node): void {
    if (this.#region === null || this.#afterForward.kind !== 'share') return;
    const { axis } = this.#afterForward;
    const { size, rank } = axisOf(currentSession().mesh, axis);
    const rows = (padded.shape[0] ?? 0) / size;
    const part = noGrad(() => new Tensor(padded).slice(0, rank * rows, (rank + 1) * rows));
    this.#region.remake(padded, () => noGrad(() => allGather(part, axis, 0)).node);
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
