import {
  isGradEnabled,
  type Node,
  noGrad,
  queueAfterBackward,
  reduceScatter,
  allReduce,
  Tensor,
} from '@shardwise/core';
import { paddedOf } from './cut.ts';
import type { ShardedPart } from './sharded-part.ts';

/**
 * Parameters whose gradients are reduced together: as soon as backward has come to the last of
 * them, so that the reduction runs while older layers compute and their whole gradients are freed.
 */
export class GradientGroup {
  /** Set to false to let gradients wait on this rank (noSync). */
  enabled = true;
  readonly #replicas: string | undefined;
  /** Leaves that the backward pass under way has still to come to. */
  #awaited = 0;
  readonly #arrived = new Map<ShardedPart, Node>();
  #underWay = false;

  /** `replicas` is a mesh axis whose ranks hold the same parts, and other batches (hybrid sharding). */
  constructor(replicas?: string) {
    this.#replicas = replicas;
  }

  /** Makes `whole`, made of the parts, the leaf at which backward ends. */
  watch(part: ShardedPart, whole: Node): void {
    if (!isGradEnabled() || !part.requiresGrad) return;
    whole.requiresGrad = true;
    whole.sink = {
      expect: () => this.#expect(),
      accumulate: (gradient) => this.#arrive(part, gradient),
    };
  }

  #expect(): void {
    if (!this.#underWay) {
      this.#underWay = true;
      queueAfterBackward((completed) => this.#end(completed));
    }
    this.#awaited++;
  }

  #arrive(part: ShardedPart, gradient: Node): void {
    this.#awaited--;
    const earlier = this.#arrived.get(part);
    // It may have been frozen since the forward pass.
    if (part.requiresGrad) {
      this.#arrived.set(part, earlier === undefined ? gradient : sumOf(earlier, gradient));
    }
    if (this.#awaited === 0) this.#reduce();
  }

  /** Some may never have arrived, as no gradient flowed to them. */
  #end(completed: boolean): void {
    this.#underWay = false;
    this.#awaited = 0;
    if (completed) this.#reduce();
    else this.#arrived.clear();
  }

  #reduce(): void {
    const arrived = [...this.#arrived];
    this.#arrived.clear();
    if (!this.enabled) {
      for (const [part, gradient] of arrived) part.accumulateLocal(gradient);
      return;
    }
    noGrad(() => {
      // All are ready before the first one leaves: one program makes them.
      const ready = arrived.map(([part, gradient]) => {
        const whole = new Tensor(part.gradientToReduce(gradient));
        return { part, padded: paddedOf(whole, part.cut) };
      });
      for (const { part, padded } of ready) {
        part.takeReduced(this.#average(padded, part.axis).node);
      }
    });
  }

  #average(padded: Tensor, axis: string): Tensor {
    const part = reduceScatter(padded, axis, 0, 'avg');
    if (this.#replicas === undefined) return part;
    return allReduce(part, this.#replicas, { reduce: 'avg' });
  }
}

/** In f32 where they differ: what reads low precision owes that, what reads f32 that. Shape: N, N -> N. */
function sumOf(first: Node, second: Node): Node {
  return noGrad(() => {
    const [a, b] = [new Tensor(first), new Tensor(second)];
    return a.dtype === b.dtype ? a.add(b) : a.to('f32').add(b.to('f32'));
  }).node;
}
