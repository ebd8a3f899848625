import { queueAfterBackward, TensorStateError, type Update } from '@shardwise/core/extend';
import { PassCount } from '../../agreement/pass-count.ts';
import type { BatchAxes } from '../../plan/axes.ts';
import { GradientGroup } from '../parts/gradient-group.ts';
import type { ShardedPart } from '../parts/sharded-part.ts';
import type { QuantizedReduction } from '../quantized/quantized-mean.ts';
import { BackwardOrder } from './backward-order.ts';

/**
 * Averages the gradients of a model whose parameters are sharded, in groups. At the end of a backward pass it
 * reduces all gradients that are left and all that have waited. All ranks reduce the same ones: those that the pass has
 * reached, or with `findUnusedParameters` those of all trained parameters.
 */
export class GradientReducer {
  /** Set to false to let gradients wait on this rank (noSync). */
  enabled = true;
  readonly #replicas: string | undefined;
  readonly #quantized: QuantizedReduction | undefined;
  readonly #groups = new Map<number, GradientGroup>();
  readonly #names = new Map<ShardedPart, string>();
  #reduced: string[] = [];
  /** The names of the parameters whose gradients the latest pass has reduced. Null before the first pass. */
  latest: ReadonlySet<string> | null = null;
  #isUnderWay = false;
  readonly #passes = new PassCount();
  /** The order of all messages of a backward pass. Null if ranks only send what their passes have reached. */
  readonly order: BackwardOrder | null;

  /** `quantized`: how gradients are averaged in few bits, if they are. */
  constructor(
    { replicas }: BatchAxes,
    findUnusedParameters: boolean,
    quantized: QuantizedReduction | undefined,
  ) {
    this.order = findUnusedParameters ? new BackwardOrder(() => this.#groups.values()) : null;
    this.#replicas = replicas;
    this.#quantized = quantized;
  }

  /** Makes a parameter a member of a group, and checks its updates. */
  add(name: string, part: ShardedPart, groupNumber: number): GradientGroup {
    const group =
      this.#groups.get(groupNumber) ?? new GradientGroup(this, this.#replicas, this.#quantized);
    this.#groups.set(groupNumber, group.add(part));
    this.#names.set(part, name);
    part.gradient.checkUpdatesBy((update) => this.#check(part, update));
    return group;
  }

  get findsUnused(): boolean {
    return this.order !== null;
  }

  /** The number of the backward pass since the last update that is reduced, from 1. */
  get pass(): number {
    return this.#passes.current;
  }

  /** Call this when a backward pass reaches one of the groups. */
  expect(): void {
    if (this.#isUnderWay) return;
    this.#isUnderWay = true;
    if (this.enabled) this.#passes.next();
    this.order?.begin();
    queueAfterBackward((completed) => this.#end(completed));
  }

  /** Call this when a group has reduced the gradients of some parts. */
  addReduced(parts: readonly ShardedPart[]): void {
    for (const part of parts) this.#reduced.push(part.name);
  }

  complete(group: GradientGroup): void {
    if (this.order === null) group.send();
    else this.order.advance();
  }

  #end(completed: boolean): void {
    this.#isUnderWay = false;
    for (const group of this.#groups.values()) group.end(completed);
    if (this.order !== null) this.order.end(completed);
    else for (const group of this.#groups.values()) group.sendRest(completed);
    if (completed && this.enabled) this.latest = new Set(this.#reduced);
    this.#reduced = [];
  }

  #check(part: ShardedPart, { leaves }: Update): void {
    this.#passes.reset();
    if (!part.gradient.waits) return;
    const updated = [...this.#names].filter(([each]) => leaves.has(each.leaf));
    const waiting = updated.filter(([each]) => each.gradient.waits).map(([, name]) => name);
    throw new TensorStateError(
      {
        asked: 'to update parameters by the means of their gradients over ranks',
        found: `${waiting.length} of ${updated.length} parameters have gradients of this rank alone, because no backward pass outside of noSync has averaged them: ${waiting.join(', ')}`,
        todo: 'Call the last backward() of a step outside of noSync',
      },
      { parameters: waiting },
    );
  }
}
