import {
  allReduce,
  isGradEnabled,
  type Node,
  noGrad,
  reduceScatter,
  Tensor,
  withCollectiveName,
  withCollectiveOrder,
} from '@shardwise/core/extend';
import { quantizedMean, type QuantizedReduction } from '../quantized/quantized-mean.ts';
import type { ShardedPart } from './sharded-part.ts';
import { sumOf } from './sum-of.ts';

/** The reducer of a group, as the group sees it. */
export interface GroupReducer {
  /** Whether each pass reduces the gradients of all trained parameters, whatever it reaches. */
  readonly findsUnused: boolean;
  /** Whether gradients are reduced. False inside noSync. */
  readonly enabled: boolean;
  /** The number of the backward pass since the last update that is reduced, from 1. */
  readonly pass: number;
  /** Called when a backward pass begins to reach one of the groups. */
  expect(): void;
  addReduced(parts: readonly ShardedPart[]): void;
  /** Called when the backward pass has reached the last parameter of a group. It may send the group. */
  complete(group: GradientGroup): void;
}

/**
 * Parameters whose gradients are reduced together, as soon as the backward pass has reached the last of them. The
 * reduction then runs while older layers compute, and their whole gradients are freed.
 */
export class GradientGroup {
  readonly #reducer: GroupReducer;
  readonly #replicas: string | undefined;
  readonly #quantized: QuantizedReduction | undefined;
  readonly #members: ShardedPart[] = [];
  /** The number of leaves that the present backward pass has still to reach. */
  #awaited = 0;
  readonly #arrived = new Map<ShardedPart, Node>();

  /** `quantized`: how gradients are averaged in few bits, if they are. */
  constructor(
    reducer: GroupReducer,
    replicas: string | undefined,
    quantized: QuantizedReduction | undefined,
  ) {
    this.#reducer = reducer;
    this.#replicas = replicas;
    this.#quantized = quantized;
  }

  add(member: ShardedPart): this {
    this.#members.push(member);
    return this;
  }

  get parts(): readonly ShardedPart[] {
    return this.#members;
  }

  /** Whether the present backward pass has no parameter of the group to reach any more. */
  get isComplete(): boolean {
    return this.#awaited === 0;
  }

  /** Makes `whole`, which was made of the parts, the leaf at which the backward pass ends. */
  watch(part: ShardedPart, whole: Node): void {
    if (!isGradEnabled() || !part.leaf.requiresGrad) return;
    whole.requiresGrad = true;
    whole.sink = {
      expect: (loss) => {
        part.leaf.contents.sink?.expect?.(loss);
        this.#reducer.expect();
        this.#awaited++;
      },
      accumulate: (gradient) => this.#arrive(part, gradient),
    };
  }

  /** Ends a pass. If it has failed, its gradients are dropped. */
  end(completed: boolean): void {
    this.#awaited = 0;
    if (!completed) this.#arrived.clear();
  }

  /** Reduces the rest at the end of a pass: what has arrived, and what has waited. */
  sendRest(completed: boolean): void {
    this.send();
    const waiting = completed && this.#reducer.enabled ? this.#members : [];
    this.#reduce(waiting.flatMap((part) => (part.gradient.waits ? [[part, null] as const] : [])));
  }

  #arrive(part: ShardedPart, gradient: Node): void {
    this.#awaited--;
    const earlier = this.#arrived.get(part);
    // The parameter may have been frozen since the forward pass.
    if (part.leaf.requiresGrad) {
      this.#arrived.set(part, earlier === undefined ? gradient : sumOf(earlier, gradient));
    }
    if (this.#awaited === 0) this.#reducer.complete(this);
  }

  /** Reduces the gradients that have arrived. */
  send(): void {
    const arrived = [...this.#arrived];
    this.#arrived.clear();
    if (this.#reducer.enabled) this.#reduce(arrived);
    else for (const [part, gradient] of arrived) part.gradient.keepLocal(gradient);
  }

  /** Reduces the gradients of all trained parameters. They are zeros where the pass has not reached a parameter. */
  sendAll(): void {
    if (!this.#reducer.enabled) {
      this.send();
      return;
    }
    const arrived = new Map(this.#arrived);
    this.#arrived.clear();
    const sent = this.#members.filter(
      (part) => part.leaf.requiresGrad || part.gradient.waits || arrived.has(part),
    );
    this.#reduce(sent.map((part) => [part, arrived.get(part) ?? null]));
  }

  /** Reduces the gradients of a pass, if any, together with those that have waited. */
  #reduce(gradients: readonly (readonly [part: ShardedPart, gradient: Node | null])[]): void {
    this.#reducer.addReduced(gradients.map(([part]) => part));
    noGrad(() => {
      // All gradients are added to the program before the first reduction, so that one segment computes them.
      const ready = gradients.map(([part, gradient]) => {
        const whole = new Tensor(part.gradient.takeLocal(gradient));
        return { part, whole, padded: part.toParts(whole) };
      });
      for (const { part, whole, padded } of ready) {
        // The next pass may replace the average of a gradient that is kept whole before anything has asked for it. Ranks
        // that use different parts of a model may ask at different times.
        const isIfUsed = part.gradient.keepsWhole && !this.#reducer.findsUnused;
        const order = isIfUsed ? 'reductionIfUsed' : 'program';
        const average = withCollectiveOrder(order, () => this.#average(padded, part));
        const again = (): Node => noGrad(() => this.#average(part.toParts(whole), part));
        part.gradient.takeReduced(average, again);
      }
    });
  }

  #average(padded: Tensor, { axis, averageName: name, place }: ShardedPart): Node {
    const { pass } = this.#reducer;
    return withCollectiveName(name, () => {
      const average =
        this.#quantized === undefined || padded.numel === 0
          ? reduceScatter(padded, axis, 0, 'avg', pass)
          : quantizedMean(padded, this.#quantized, { axis, size: place.size, name });
      if (this.#replicas === undefined) return average.node;
      return allReduce(average, this.#replicas, { reduce: 'avg', pass }).node;
    });
  }
}
