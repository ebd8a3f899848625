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
import type { ShardedParameter } from './sharded-parameter.ts';

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
  readonly #arrived = new Map<ShardedParameter, Node>();
  #underWay = false;

  /** `replicas` is a mesh axis whose ranks hold the same parts, and other batches (hybrid sharding). */
  constructor(replicas?: string) {
    this.#replicas = replicas;
  }

  /** Makes `whole`, an expression of the parameter, the leaf at which backward ends. */
  watch(parameter: ShardedParameter, whole: Node): void {
    if (!isGradEnabled() || !parameter.contents.requiresGrad) return;
    whole.requiresGrad = true;
    whole.sink = {
      expect: () => this.#expect(),
      accumulate: (gradient) => this.#arrive(parameter, gradient),
    };
  }

  #expect(): void {
    if (!this.#underWay) {
      this.#underWay = true;
      queueAfterBackward((completed) => this.#end(completed));
    }
    this.#awaited++;
  }

  #arrive(parameter: ShardedParameter, gradient: Node): void {
    this.#awaited--;
    const earlier = this.#arrived.get(parameter);
    // It may have been frozen since the forward pass.
    if (parameter.requiresGrad) {
      this.#arrived.set(
        parameter,
        earlier === undefined
          ? gradient
          : noGrad(() => new Tensor(earlier).add(new Tensor(gradient))).node,
      );
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
      for (const [parameter, gradient] of arrived) parameter.accumulateLocal(gradient);
      return;
    }
    noGrad(() => {
      // All are ready before the first one leaves: one program makes them.
      const ready = arrived.map(([parameter, gradient]) => {
        const whole = new Tensor(parameter.gradientToReduce(gradient));
        return { parameter, padded: paddedOf(whole, parameter.cut) };
      });
      for (const { parameter, padded } of ready) {
        parameter.takeReduced(this.#average(padded, parameter.axis).node);
      }
    });
  }

  #average(padded: Tensor, axis: string): Tensor {
    const part = reduceScatter(padded, axis, 0, 'avg');
    if (this.#replicas === undefined) return part;
    return allReduce(part, this.#replicas, { reduce: 'avg' });
  }
}
