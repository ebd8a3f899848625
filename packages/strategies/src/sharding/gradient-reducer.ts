import {
  CollectiveMismatchError,
  currentSession,
  queueAfterBackward,
  TensorStateError,
  type Update,
} from '@shardwise/core/extend';
import { PassCount } from '../pass-count.ts';
import { batchAxesOf, type BatchAxes } from '../plan/batch-axes.ts';
import { RankAgreement } from '../rank-agreement.ts';
import { BackwardOrder } from './backward-order.ts';
import { GradientGroup } from './gradient-group.ts';
import type { ShardedPart } from './sharded-part.ts';

/**
 * Averages the gradients of a model whose parameters are shared out, in groups. At the end of a backward pass it
 * reduces all gradients that are left and all that have waited. All ranks reduce the same ones: those that the pass has
 * reached, or with `findUnusedParameters` those of all trained parameters.
 */
export class GradientReducer {
  /** Set to false to let gradients wait on this rank (noSync). */
  enabled = true;
  readonly #axis: string;
  readonly #replicas: string | undefined;
  readonly #groups = new Map<number, GradientGroup>();
  readonly #names = new Map<ShardedPart, string>();
  readonly #agreement: RankAgreement;
  #reduced: string[] = [];
  /** The names of the parameters whose gradients the latest pass has reduced. Null before the first pass. */
  latest: ReadonlySet<string> | null = null;
  #isUnderWay = false;
  readonly #passes = new PassCount();
  /** The order of all messages of a backward pass. Null if ranks only send what their passes have reached. */
  readonly order: BackwardOrder | null;

  constructor(over: BatchAxes, findUnusedParameters: boolean) {
    this.order = findUnusedParameters ? new BackwardOrder(() => this.#groups.values()) : null;
    this.#axis = over.axis;
    this.#replicas = over.replicas;
    this.#agreement = new RankAgreement(batchAxesOf(over), '');
  }

  /** Makes a parameter a member of a group, and checks its updates. */
  add(name: string, part: ShardedPart, groupNumber: number): GradientGroup {
    const group = this.#groups.get(groupNumber) ?? new GradientGroup(this, this.#replicas);
    this.#groups.set(groupNumber, group.add(part));
    this.#names.set(part, name);
    part.checkUpdatesBy((update) => this.#check(part, update));
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
  noteReduced(parts: readonly ShardedPart[]): void {
    for (const part of parts) this.#reduced.push(this.#names.get(part) ?? '');
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
    if (completed && this.enabled) {
      this.#agreement.say(this.#reduced.join(' '));
      this.latest = new Set(this.#reduced);
    }
    this.#reduced = [];
  }

  #check(part: ShardedPart, { leaves }: Update): void {
    if (this.#agreement.differingRank() !== undefined) throw this.#difference();
    this.#passes.reset();
    if (!part.waits) return;
    const updated = [...this.#names].filter(([each]) => leaves.has(each));
    const waiting = updated.filter(([each]) => each.waits).map(([, name]) => name);
    throw new TensorStateError(
      {
        asked: 'to update parameters by the means of their gradients over ranks',
        found: `${waiting.length} of ${updated.length} parameters have gradients of this rank alone, because no backward pass outside of noSync has averaged them: ${waiting.join(', ')}`,
        todo: 'Call the last backward() of a step outside of noSync',
      },
      { parameters: waiting },
    );
  }

  #difference(): CollectiveMismatchError {
    const { rank } = currentSession().mesh.group(this.#axis);
    return new CollectiveMismatchError(
      {
        asked: 'to reduce the gradients of one backward pass on all ranks',
        found: `in a pass before this update, ranks had gradients of different parameters, which may have been mixed (this is rank ${rank})`,
        todo: 'Make the losses of all ranks depend on the same trained parameters, or pass findUnusedParameters: true; freeze the same parameters on all ranks; and start again from a checkpoint',
      },
      { rank },
    );
  }
}
