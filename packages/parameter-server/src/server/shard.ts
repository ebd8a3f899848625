import { fromBytes } from '@shardwise/core/extend';
import { KeptValues } from './kept-values.ts';
import { refusal } from '../protocol/refusal.ts';
import { bytesIn, receivedGradient } from '../protocol/sent-gradients.ts';
import {
  firstDifference,
  requireRecipe,
  type ServedJob,
  type ServedParameter,
  type UpdateRecipe,
} from '../protocol/job.ts';
import type {
  InitialiseRequest,
  JoinRequest,
  LeaveRequest,
  PartRequest,
  PullRequest,
  PushRequest,
} from '../protocol/request.ts';
import type { SavedMember, ShardHead } from '../protocol/shard-head.ts';
import { ShardCounts } from './shard-statistics.ts';
import { type OptimizerTable, requireArrays, StoredParameters } from './stored-parameters.ts';
import { VectorClock } from './vector-clock.ts';

interface Member extends SavedMember {
  session: number;
  sequence: number;
  read: number;
  /** In elastic averaging, the servers' values before the worker's last exchange with them. */
  before?: readonly Uint8Array[];
  /** The values with which the worker's last push was answered and that it has not pulled yet. */
  kept?: KeptValues;
}

interface WaitingPush {
  readonly recipe: UpdateRecipe;
  /** The gradient of each parameter. Null if the worker has none. */
  readonly gradients: readonly (Float32Array | null)[];
}

/** The outcome of a push. A push that arrives again or too late changes nothing. */
export type PushOutcome = { readonly staleness: number; readonly isLate: boolean };

/**
 * The state of one range of keys on a server. The same requests in the same order make the same bits, so a copy that
 * gets the same requests is equal. It never waits: the ShardHost decides which worker waits for which.
 */
export class Shard {
  readonly counts: ShardCounts = new ShardCounts();
  readonly clock: VectorClock = new VectorClock();
  readonly #table: OptimizerTable;
  readonly #members = new Map<number, Member>();
  /**
   * The number of the last push of each worker that has left, so that a push whose answer was lost does not count
   * again.
   */
  readonly #left = new Map<number, number>();
  #job: ServedJob | null = null;
  #stored: StoredParameters | null = null;
  /** The step for which gradients of a synchronous job are collected. */
  #round = 0;
  #version = 0;
  #sessions = 0;
  /** The workers that have joined at least once. */
  readonly #known = new Set<number>();
  #waiting = new Map<number, WaitingPush>();

  constructor(table: OptimizerTable) {
    this.#table = table;
  }

  get round(): number {
    return this.#round;
  }

  get version(): number {
    return this.#version;
  }

  get isInitialised(): boolean {
    return this.#stored !== null;
  }

  get job(): ServedJob {
    if (this.#job === null) {
      throw refusal('unknown-worker', 'a request', 'no worker has joined', 'Join first');
    }
    return this.#job;
  }

  /** Begins a start of a worker. The worker may have joined before. */
  join({ worker, job }: JoinRequest): {
    readonly session: number;
    readonly sequence: number;
    readonly isInitialised: boolean;
  } {
    // A run that resumes from a snapshot may have other workers and another consistency. Only its parameters must be
    // the same.
    const isFirst = this.#known.size === 0;
    const comparable = (each: ServedJob): string =>
      JSON.stringify(isFirst ? each.parameters : each);
    const [own, given] = [comparable(this.#job ?? job), comparable(job)];
    if (own !== given) {
      throw refusal(
        'other-model',
        `worker ${worker} joins`,
        `its job differs from that of the workers before: ${firstDifference(own, given)}`,
        'Start every worker with the same model and the same consistency',
      );
    }
    if (worker >= job.workers) {
      throw refusal(
        'malformed',
        `worker ${worker} joins`,
        `the job has workers 0 to ${job.workers - 1}`,
        'Give each worker a number of its own',
      );
    }
    this.#job = job;
    const sequence = this.#members.get(worker)?.sequence ?? this.#left.get(worker) ?? 0;
    const session = ++this.#sessions;
    this.#known.add(worker);
    this.#members.set(worker, { session, sequence, read: this.#version });
    // An unfinished push of the worker's earlier start has had no answer, so it is dropped and may be sent again.
    this.#waiting.delete(worker);
    // A worker that joins late or again begins at the step of the slowest one, because it reads the present values.
    if (!this.clock.has(worker)) {
      const { minimum } = this.clock;
      this.clock.set(worker, Number.isFinite(minimum) ? minimum : 0);
    }
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

  /**
   * Throws RefusedError for a request of a worker that this server does not know, or of an earlier start of the worker.
   */
  check({ worker, session }: { readonly worker: number; readonly session: number }): Member {
    const member = this.#members.get(worker);
    if (member === undefined) {
      throw refusal(
        'unknown-worker',
        `a request of worker ${worker}`,
        'it has not joined, or was lost',
        'Join again',
      );
    }
    if (member.session === session) return member;
    if (session > member.session) {
      throw refusal(
        'unknown-worker',
        `a request of worker ${worker}`,
        `it is from start ${session}, and this server was restarted from an earlier state`,
        'Join again',
      );
    }
    throw refusal(
      'stale',
      `a request of worker ${worker}`,
      `it is from start ${session}, and start ${member.session} has joined since`,
      'End the earlier start of this worker',
    );
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
    this.counts.earlyBytes += bytesIn(arrays);
  }

  async push(request: PushRequest, arrays: readonly Uint8Array[]): Promise<PushOutcome> {
    const { worker, sequence, round, recipe, present, dtype } = request;
    const member = this.check(request);
    const { parameters, consistency } = this.job;
    const stored = this.#storedOf();
    if (sequence < member.sequence) {
      throw refusal(
        'stale',
        `push ${sequence} of worker ${worker}`,
        `its push ${member.sequence} has arrived before`,
        'Send each push before the next one',
      );
    }
    if (sequence === member.sequence) {
      this.counts.duplicates++;
      return { staleness: 0, isLate: false };
    }
    if (sequence > member.sequence + 1) {
      throw refusal(
        'gap',
        `push ${sequence} of worker ${worker}`,
        `the last one here is ${member.sequence}`,
        'Join again, and go on from what this server has',
      );
    }
    requireArrays(parameters, present, arrays, dtype);
    this.counts.receivedBytes += bytesIn(arrays);
    const given = arrays.map((bytes) => receivedGradient(bytes, dtype));
    const staleness = this.#version - member.read;
    if (consistency.kind === 'elastic') {
      member.before = await stored.values();
      await this.#average(stored, given, consistency.movingRate);
    } else {
      const used = requireRecipe(recipe, parameters.length);
      let next = 0;
      const gradients = present.map((isPresent) => (isPresent ? (given[next++] ?? null) : null));
      if (consistency.kind === 'synchronous') {
        if (round < this.#round) {
          member.sequence = sequence;
          this.counts.late++;
          this.clock.set(worker, this.#round);
          return { staleness, isLate: true };
        }
        this.#waiting.set(worker, { recipe: used, gradients });
        member.sequence = sequence;
        await this.completeRound();
        return { staleness: 0, isLate: false };
      }
      await stored.update(
        used,
        gradients.map((gradient) => [gradient]),
      );
      this.#countUpdate();
    }
    member.sequence = sequence;
    // The worker's own update does not count as one of others.
    member.read++;
    this.clock.tick(worker);
    ShardCounts.add(this.counts.staleness, staleness);
    return { staleness, isLate: false };
  }

  /** Averages the gradients of a synchronous step, if enough workers have sent theirs. */
  async completeRound(): Promise<void> {
    const { consistency, parameters } = this.job;
    if (consistency.kind !== 'synchronous' || this.#waiting.size === 0) return;
    if (this.#waiting.size < this.due || !this.isComplete) return;
    const inOrder = [...this.#waiting].toSorted(([a], [b]) => a - b);
    const sent = parameters.map((_, index) =>
      inOrder.map(([, { gradients }]) => gradients[index] ?? null),
    );
    const recipe = inOrder[0]?.[1].recipe;
    const workers = inOrder.map(([worker]) => worker);
    this.#waiting.clear();
    this.#round++;
    for (const worker of workers) this.clock.set(worker, this.#round);
    if (recipe !== undefined) await this.#storedOf().update(recipe, sent);
    this.#countUpdate();
    for (const _ of workers) ShardCounts.add(this.counts.staleness, 0);
  }

  /** Whether all workers of the job have joined at least once. A synchronous step does not begin before. */
  get isComplete(): boolean {
    return this.#known.size >= this.job.workers;
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
    return [...this.#members.keys()];
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
    return Math.max(1, this.#members.size - spare);
  }

  /** Whether a push of a worker waits for the others of its step. */
  isWaiting(worker: number): boolean {
    return this.#waiting.has(worker);
  }

  /** Removes a worker, so that nobody waits for it any more. */
  async leave({ worker }: Pick<LeaveRequest, 'worker'>): Promise<void> {
    const member = this.#members.get(worker);
    if (member !== undefined) this.#left.set(worker, member.sequence);
    this.#members.delete(worker);
    this.#waiting.delete(worker);
    this.clock.remove(worker);
    await this.completeRound();
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
    const member = this.check(request);
    this.#specsOf(`a pull of worker ${worker}`, places);
    if (member.kept === undefined) await this.keepFor(worker);
    const values = (await member.kept?.take(places, () => this.#valuesFor(member))) ?? [];
    this.counts.sentBytes += bytesIn(values);
    return values;
  }

  /** Throws RefusedError for places that do not exist, and for repeated ones. */
  #specsOf(asked: string, places: readonly number[]): readonly ServedParameter[] {
    const { parameters } = this.job;
    const specs = places.flatMap((place) => parameters[place] ?? []);
    if (specs.length === places.length && new Set(places).size === places.length) return specs;
    throw refusal(
      'malformed',
      asked,
      `the parameters ${places.slice(0, 10).join(', ')} of ${parameters.length}, of which one does not exist or occurs twice`,
      'Send what this version of Shardwise sends',
    );
  }

  /** Returns the values for a worker. After an elastic exchange, these are the values before it. */
  async #valuesFor({ before }: Member): Promise<readonly Uint8Array[]> {
    return before ?? (await this.#storedOf().values());
  }

  /** Forgets all workers, because another run begins with the values and states. */
  forgetWorkers(): void {
    for (const worker of this.clock.workers) this.clock.remove(worker);
    for (const each of [this.#members, this.#left, this.#known, this.#waiting]) each.clear();
  }

  async snapshot(): Promise<{ readonly head: ShardHead; readonly arrays: readonly Uint8Array[] }> {
    const stored = (await this.#stored?.state()) ?? {
      head: { recipe: null, states: [] },
      arrays: [],
    };
    const waiting = [...this.#waiting];
    return {
      head: {
        job: this.job,
        round: this.#round,
        version: this.#version,
        sessions: this.#sessions,
        known: [...this.#known],
        members: [...this.#members].map(([worker, { session, sequence, read }]) => [
          worker,
          { session, sequence, read },
        ]),
        left: [...this.#left],
        clock: this.clock.toJSON(),
        isInitialised: this.isInitialised,
        stored: stored.head,
        waiting: waiting.map(([worker, { recipe, gradients }]) => ({
          worker,
          recipe,
          present: gradients.map((gradient) => gradient !== null),
        })),
      },
      arrays: [
        ...stored.arrays,
        ...waiting.flatMap(([, { gradients }]) =>
          gradients.flatMap((gradient) => (gradient === null ? [] : bytesOf(gradient))),
        ),
      ],
    };
  }

  /** Replaces the whole state by that of a snapshot. */
  async restore(head: ShardHead, arrays: readonly Uint8Array[]): Promise<void> {
    const { job, stored, waiting } = head;
    this.#job = job;
    this.#round = head.round;
    this.#version = head.version;
    this.#sessions = head.sessions;
    this.#known.clear();
    for (const worker of head.known) this.#known.add(worker);
    this.#members.clear();
    for (const [worker, member] of head.members) this.#members.set(worker, { ...member });
    this.#left.clear();
    for (const [worker, sequence] of head.left) this.#left.set(worker, sequence);
    for (const worker of this.clock.workers) this.clock.remove(worker);
    for (const [worker, clock] of head.clock) this.clock.set(worker, clock);
    const count = head.isInitialised ? job.parameters.length : 0;
    const stateEnd = count + stored.states.length;
    this.#stored = null;
    if (head.isInitialised) {
      this.#stored = new StoredParameters(this.#table, job.parameters, arrays.slice(0, count));
      await this.#stored.restore({ head: stored, arrays: arrays.slice(0, stateEnd) });
    }
    this.#waiting = new Map();
    let next = stateEnd;
    for (const { worker, recipe, present } of waiting) {
      const gradients = present.map((isPresent) =>
        isPresent
          ? (fromBytes((arrays[next++] ?? new Uint8Array(0)).slice(), 'f32') as Float32Array)
          : null,
      );
      this.#waiting.set(worker, { recipe, gradients });
    }
  }

  /** Elastic averaging: moves the servers' values towards the worker's. The worker moves by the same difference. */
  async #average(
    stored: StoredParameters,
    given: readonly Float32Array[],
    movingRate: number,
  ): Promise<void> {
    const values = await stored.values();
    const moved = given.map((own, index) => {
      const centre = (fromBytes(values[index] ?? new Uint8Array(0), 'f32') as Float32Array).slice();
      for (let element = 0; element < centre.length; element++) {
        centre[element]! += movingRate * (own[element]! - centre[element]!);
      }
      return centre;
    });
    await stored.write(moved);
    this.#countUpdate();
  }

  #countUpdate(): void {
    this.#version++;
    this.counts.updates++;
  }

  #storedOf(): StoredParameters {
    if (this.#stored !== null) return this.#stored;
    throw refusal(
      'not-initialised',
      'a request for parameters',
      'worker 0 has not given their first values, or the server has lost them',
      'Start the run again from a snapshot, or with replicas',
    );
  }
}

function bytesOf({ buffer, byteOffset, byteLength }: Float32Array): Uint8Array {
  return new Uint8Array(buffer, byteOffset, byteLength);
}
