import { refusal } from '../protocol/refusal.ts';
import { byteLengthOf, floatsOf, receivedGradient, requireArrays } from '../protocol/arrays.ts';
import { movedTowards } from '../protocol/consistency.ts';
import {
  requireJob,
  requireRecipe,
  type ServedJob,
  type ServedParameter,
} from '../protocol/job.ts';
import type {
  InitialiseRequest,
  JoinRequest,
  LeaveRequest,
  PartRequest,
  PullRequest,
  PushRequest,
} from '../protocol/request.ts';
import type { ShardHead } from '../protocol/shard-head.ts';
import { ShardCounts } from './shard-statistics.ts';
import { KeptValues, type Member, ShardMembers } from './shard-members.ts';
import { type OptimizerTable, StoredParameters } from './stored-parameters.ts';
import type { VectorClock } from './vector-clock.ts';
import { WaitingPushes } from './waiting-pushes.ts';

/** The outcome of a push. A push that arrives again or too late changes nothing. */
export type PushOutcome = { readonly staleness: number; readonly isLate: boolean };

/**
 * The state of one range of keys on a server. The same requests in the same order make the same bits, so a copy that
 * gets the same requests is equal. It never waits: the ShardHost decides which worker waits for which.
 */
export class Shard {
  readonly counts: ShardCounts = new ShardCounts();
  readonly #table: OptimizerTable;
  readonly #members = new ShardMembers();
  readonly #waiting = new WaitingPushes();
  #job: ServedJob | null = null;
  #stored: StoredParameters | null = null;
  /** The step for which gradients of a synchronous job are collected. */
  #step = 0;
  #version = 0;

  constructor(table: OptimizerTable) {
    this.#table = table;
  }

  get clock(): VectorClock {
    return this.#members.clock;
  }

  get step(): number {
    return this.#step;
  }

  get version(): number {
    return this.#version;
  }

  get isInitialised(): boolean {
    return this.#stored !== null;
  }

  get job(): ServedJob {
    if (this.#job === null) {
      throw refusal('unknown-worker', {
        asked: 'a request',
        found: 'no worker has joined',
        todo: 'Join first',
      });
    }
    return this.#job;
  }

  /** Begins a start of a worker. The worker may have joined before. */
  join({ worker, job }: JoinRequest): {
    readonly session: number;
    readonly sequence: number;
    readonly isInitialised: boolean;
  } {
    const isFirst = this.#members.knownCount === 0;
    requireJob(worker, job, this.#job ?? job, isFirst);
    this.#job = job;
    const { session, sequence } = this.#members.join(worker, this.#version);
    // An unfinished push of the worker's earlier start has had no answer, so it is dropped and may be sent again.
    this.#waiting.delete(worker);
    return { session, sequence, isInitialised: this.isInitialised };
  }

  /** Sets the initial values. Later calls are ignored, because the present values have been trained. */
  initialise(_: InitialiseRequest, arrays: readonly Uint8Array[]): void {
    const { parameters } = this.job;
    requireArrays(
      parameters,
      parameters.map(() => true),
      arrays,
    );
    this.#stored ??= new StoredParameters(this.#table, parameters, arrays);
  }

  /** Throws RefusedError for a request of a worker that has not joined, or of an earlier start of the worker. */
  check(request: { readonly worker: number; readonly session: number }): void {
    this.#members.check(request);
  }

  /** Throws RefusedError if early gradients do not fit the parameters of this range. */
  checkPart(
    { parameters: places, dtype, ...request }: PartRequest,
    arrays: readonly Uint8Array[],
  ): void {
    this.check(request);
    const specs = this.#specsOf(`gradients of worker ${request.worker} before its push`, places);
    requireArrays(
      specs,
      specs.map(() => true),
      arrays,
      dtype,
    );
    this.counts.earlyBytes += byteLengthOf(arrays);
  }

  /** Counts a push once, however often it arrives. Throws RefusedError for one that does not fit. */
  async push(request: PushRequest, arrays: readonly Uint8Array[]): Promise<PushOutcome> {
    const { worker, present, dtype } = request;
    const member = this.#members.check(request);
    const { parameters, consistency } = this.job;
    const stored = this.#storedOf();
    if (this.#members.hasCounted(request)) {
      this.counts.duplicates++;
      return { staleness: 0, isLate: false };
    }
    requireArrays(parameters, present, arrays, dtype);
    this.counts.receivedBytes += byteLengthOf(arrays);
    const given = arrays.map((bytes) => receivedGradient(bytes, dtype));
    const staleness = this.#version - member.read;
    switch (consistency.kind) {
      case 'synchronous':
        return this.#pushToStep(request, given, member);
      case 'elastic':
        member.before = await stored.values();
        await this.#average(stored, given, consistency.movingRate);
        break;
      case 'bounded': {
        const recipe = requireRecipe(request.recipe, parameters.length);
        const gradients = gradientsOf(present, given);
        await stored.update(
          recipe,
          gradients.map((gradient) => [gradient]),
        );
        this.#countUpdate();
        break;
      }
      default:
        return consistency satisfies never;
    }
    member.sequence = request.sequence;
    // The worker's own update does not count as one of others.
    member.read++;
    this.clock.tick(worker);
    ShardCounts.add(this.counts.staleness, staleness);
    return { staleness, isLate: false };
  }

  /** Adds a push to the synchronous step that it belongs to. A push for an earlier step is late, and is dropped. */
  async #pushToStep(
    { worker, sequence, step, present, recipe }: PushRequest,
    given: readonly Float32Array[],
    member: Member,
  ): Promise<PushOutcome> {
    const used = requireRecipe(recipe, this.job.parameters.length);
    const isLate = step < this.#step;
    const staleness = isLate ? this.#version - member.read : 0;
    member.sequence = sequence;
    if (isLate) {
      this.counts.late++;
      this.clock.set(worker, this.#step);
    } else {
      this.#waiting.set(worker, { recipe: used, gradients: gradientsOf(present, given) });
      await this.completeStep();
    }
    return { staleness, isLate };
  }

  /** Averages the gradients of a synchronous step, if enough workers have sent theirs. */
  async completeStep(): Promise<void> {
    if (this.job.consistency.kind !== 'synchronous') return;
    if (this.#waiting.size < this.due || !this.isComplete) return;
    const joint = this.#waiting.take();
    if (joint === undefined) return;
    this.#step++;
    for (const worker of joint.workers) this.clock.set(worker, this.#step);
    await this.#storedOf().update(joint.recipe, joint.gradients);
    this.#countUpdate();
    for (const _ of joint.workers) ShardCounts.add(this.counts.staleness, 0);
  }

  /** Whether all workers of the job have joined at least once. A synchronous step does not begin before. */
  get isComplete(): boolean {
    return this.#members.knownCount >= this.job.workers;
  }

  /** The number of a worker's present start. Undefined if it has not joined or has left. */
  sessionOf(worker: number): number | undefined {
    return this.#members.get(worker)?.session;
  }

  /** The workers for which the others wait. */
  get slowest(): readonly number[] {
    const { consistency } = this.job;
    if (consistency.kind === 'synchronous') {
      return this.workers.filter((worker) => !this.#waiting.has(worker));
    }
    const { minimum } = this.clock;
    return this.clock.workers.filter((worker) => this.clock.of(worker) === minimum);
  }

  get workers(): readonly number[] {
    return this.#members.workers;
  }

  /**
   * The number of steps that a worker is ahead of the slowest one. Workers that have not joined yet count as being at
   * step 0.
   */
  lead(worker: number): number {
    return this.isComplete ? this.clock.lead(worker) : this.clock.of(worker);
  }

  /** The number of workers whose gradients a synchronous step needs. */
  get due(): number {
    const { consistency } = this.job;
    const spare = consistency.kind === 'synchronous' ? consistency.backupWorkers : 0;
    return Math.max(1, this.workers.length - spare);
  }

  /** Whether a push of a worker waits for the others of its step. */
  isWaiting(worker: number): boolean {
    return this.#waiting.has(worker);
  }

  /** Removes a worker, so that nobody waits for it any more. */
  async leave({ worker }: Pick<LeaveRequest, 'worker'>): Promise<void> {
    this.#members.leave(worker);
    this.#waiting.delete(worker);
    await this.completeStep();
  }

  /** Keeps the present values for a worker until it pulls them, whatever others change in between. */
  async keepFor(worker: number): Promise<void> {
    const member = this.#members.get(worker);
    if (member === undefined) return;
    member.kept = new KeptValues(await this.#valuesFor(member));
    member.read = this.#version;
    ShardCounts.add(this.counts.lead, this.lead(worker));
  }

  /** Returns the values of some parameters that are kept for a worker. Throws RefusedError for invalid places. */
  async pull({ parameters: places, ...request }: PullRequest): Promise<readonly Uint8Array[]> {
    const { worker } = request;
    const member = this.#members.check(request);
    this.#specsOf(`a pull of worker ${worker}`, places);
    if (member.kept === undefined) await this.keepFor(worker);
    const values = (await member.kept?.take(places, () => this.#valuesFor(member))) ?? [];
    this.counts.sentBytes += byteLengthOf(values);
    return values;
  }

  /** Throws RefusedError for places that do not exist, and for repeated ones. */
  #specsOf(asked: string, places: readonly number[]): readonly ServedParameter[] {
    const { parameters } = this.job;
    const specs = places.flatMap((place) => parameters[place] ?? []);
    if (specs.length === places.length && new Set(places).size === places.length) return specs;
    throw refusal('malformed', {
      asked,
      found: `the parameters ${places.slice(0, 10).join(', ')} of ${parameters.length}, of which one does not exist or occurs twice`,
      todo: 'Send what this version of Shardwise sends',
    });
  }

  /** Returns the values for a worker. After an elastic exchange, these are the values before it. */
  async #valuesFor({ before }: Member): Promise<readonly Uint8Array[]> {
    return before ?? (await this.#storedOf().values());
  }

  /** Forgets all workers, because another run begins with the values and states. */
  forgetWorkers(): void {
    this.#members.clear();
    this.#waiting.clear();
  }

  async snapshot(): Promise<{ readonly head: ShardHead; readonly arrays: readonly Uint8Array[] }> {
    const stored = (await this.#stored?.state()) ?? {
      head: { recipe: null, states: [] },
      arrays: [],
    };
    return {
      head: {
        job: this.job,
        step: this.#step,
        version: this.#version,
        ...this.#members.head(),
        isInitialised: this.isInitialised,
        stored: stored.head,
        waiting: this.#waiting.head(),
      },
      arrays: [...stored.arrays, ...this.#waiting.arrays()],
    };
  }

  /** Replaces the whole state by that of a snapshot. */
  async restore(head: ShardHead, arrays: readonly Uint8Array[]): Promise<void> {
    const { job, stored } = head;
    this.#job = job;
    this.#step = head.step;
    this.#version = head.version;
    this.#members.restore(head);
    const count = head.isInitialised ? job.parameters.length : 0;
    const stateEnd = count + stored.states.length;
    this.#stored = null;
    if (head.isInitialised) {
      this.#stored = new StoredParameters(this.#table, job.parameters, arrays.slice(0, count));
      await this.#stored.restore({ head: stored, arrays: arrays.slice(0, stateEnd) });
    }
    this.#waiting.restore(head.waiting, arrays.slice(stateEnd));
  }

  /** Elastic averaging: moves the servers' values towards the worker's. The worker moves by the same difference. */
  async #average(
    stored: StoredParameters,
    given: readonly Float32Array[],
    movingRate: number,
  ): Promise<void> {
    const values = await stored.values();
    const moved = given.map((own, index) => movedTowards(floatsOf(values[index]), own, movingRate));
    await stored.write(moved);
    this.#countUpdate();
  }

  #countUpdate(): void {
    this.#version++;
    this.counts.updates++;
  }

  #storedOf(): StoredParameters {
    if (this.#stored !== null) return this.#stored;
    throw refusal('not-initialised', {
      asked: 'a request for parameters',
      found: 'worker 0 has not given their first values, or the server has lost them',
      todo: 'Start the run again from a snapshot, or with replicas',
    });
  }
}

/** Puts the gradients that are present in the places of their parameters. */
function gradientsOf(
  present: readonly boolean[],
  given: readonly Float32Array[],
): readonly (Float32Array | null)[] {
  let next = 0;
  return present.map((isPresent) => (isPresent ? (given[next++] ?? null) : null));
}
