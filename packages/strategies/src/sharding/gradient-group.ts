import {
  allReduce,
  isGradEnabled,
  type Node,
  noGrad,
  reduceScatter,
  Tensor,
} from '@shardwise/core/extend';
import type { ShardedPart } from './sharded-part.ts';
import { sumOf } from './sum-of.ts';

/** What a group asks and tells the reducer that it belongs to. */
export interface GroupReducer {
  /** Whether gradients are reduced; false in noSync. */
  readonly enabled: boolean;
  /** Which backward pass since the last update is reduced, from 1. */
  readonly pass: number;
  /** A backward pass comes to one of the groups. */
  expect(): void;
  noteReduced(parts: readonly ShardedPart[]): void;
}

/**
 * Parameters whose gradients are reduced together: as soon as backward has come to the last of
 * them, so that the reduction runs while older layers compute and their whole gradients are freed.
 */
export class GradientGroup {
  readonly #reducer: GroupReducer;
  readonly #replicas: string | undefined;
  readonly #members: ShardedPart[] = [];
  /** Leaves that the backward pass under way has still to come to. */
  #awaited = 0;
  readonly #arrived = new Map<ShardedPart, Node>();

  constructor(reducer: GroupReducer, replicas: string | undefined) {
    this.#reducer = reducer;
    this.#replicas = replicas;
  }

  add(member: ShardedPart): this {
    this.#members.push(member);
    return this;
  }

  /** Makes `whole`, made of the parts, the leaf at which backward ends. */
  watch(part: ShardedPart, whole: Node): void {
    if (!isGradEnabled() || !part.requiresGrad) return;
    whole.requiresGrad = true;
    whole.sink = {
      expect: (loss) => {
        part.contents.sink?.expect?.(loss);
        this.#reducer.expect();
        this.#awaited++;
      },
      accumulate: (gradient) => this.#arrive(part, gradient),
    };
  }

  /** The pass is over: what has not been reduced yet is, but where the pass failed on its way. */
  end(completed: boolean): void {
    this.#awaited = 0;
    if (!completed) this.#arrived.clear();
    this.#takeArrived();
    const waiting = completed && this.#reducer.enabled ? this.#members : [];
    this.#reduce(waiting.flatMap((part) => (part.waits ? [[part, null] as const] : [])));
  }

  #arrive(part: ShardedPart, gradient: Node): void {
    this.#awaited--;
    const earlier = this.#arrived.get(part);
    // It may have been frozen since the forward pass.
    if (part.requiresGrad) {
      this.#arrived.set(part, earlier === undefined ? gradient : sumOf(earlier, gradient));
    }
    if (this.#awaited === 0) this.#takeArrived();
  }

  #takeArrived(): void {
    const arrived = [...this.#arrived];
    this.#arrived.clear();
    if (this.#reducer.enabled) this.#reduce(arrived);
    else for (const [part, gradient] of arrived) part.keepLocal(gradient);
  }

  /** The gradients of a pass, if any, with what has waited. */
  #reduce(gradients: readonly (readonly [part: ShardedPart, gradient: Node | null])[]): void {
    this.#reducer.noteReduced(gradients.map(([part]) => part));
    noGrad(() => {
      // All are ready before the first one leaves: one program makes them.
      const ready = gradients.map(([part, gradient]) => {
        return { part, padded: part.toParts(new Tensor(part.takeLocal(gradient))) };
      });
      for (const { part, padded } of ready) {
        part.takeReduced(this.#average(padded, part.axis).node);
      }
    });
  }

  #average(padded: Tensor, axis: string): Tensor {
    const { pass } = this.#reducer;
    const part = reduceScatter(padded, axis, 0, 'avg', pass);
    if (this.#replicas === undefined) return part;
    return allReduce(part, this.#replicas, { reduce: 'avg', pass });
  }
}
