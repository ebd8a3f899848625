import { checkOptions, option, type OptionRules } from '@shardwise/core/base';
import { ConfigError, ShardwiseError } from '@shardwise/core/spec';
import { StackSampler } from './stack-sampler.ts';
import { configOf, entryOf, statusOf } from './dump-entry.ts';
import type { FlightDump, FlightFailure } from './flight-dump.ts';
import type { CallFollower, CallObserver, ObservedGroup } from '../call/call-observer.ts';
import type { GroupCall, Transfer } from '../call/calls.ts';
import { GroupRecording, type RecordingOwner } from '../call/group-recording.ts';
import type { NewCall, RecordedCall } from '../call/recorded-call.ts';

/** Options of `FlightRecorder`. */
export interface FlightRecorderOptions {
  /** This rank's number in the world. */
  readonly rank: number;
  readonly worldSize: number;
  /** The number of calls that are kept. Default: 2000. */
  readonly size?: number;
  /** Called when the first call fails, before its caller learns of it. */
  readonly onFailure?: (recorder: FlightRecorder) => void;
}

const recorderRules: OptionRules<FlightRecorderOptions> = {
  rank: option.required(option.count),
  worldSize: option.required(option.count),
  size: option.number,
  onFailure: option.callback(),
};

const VERSION = '1.0';
const DEFAULT_SIZE = 2000;
const MAX_SIZE = 100_000;
/**
 * The number of stacks that are kept. They are few, because a stack keeps alive what its functions have closed over.
 */
const KEPT_CALL_SITES = 64;

/** Records the latest calls of one rank on all its groups. Compare a dump of it with those of the other ranks. */
export class FlightRecorder implements RecordingOwner, CallObserver {
  readonly rank: number;
  readonly worldSize: number;
  readonly #calls: RingBuffer<RecordedCall>;
  readonly #withStack = new RingBuffer<RecordedCall>(KEPT_CALL_SITES);
  readonly #stacks = new StackSampler();
  readonly #groups: GroupRecording[] = [];
  readonly #recordings = new WeakMap<ObservedGroup, GroupRecording>();
  readonly #onFailure: (recorder: FlightRecorder) => void;
  #issued = 0;
  #failure: FlightFailure | null = null;

  /** Throws ConfigError for a size out of range. */
  constructor(options: FlightRecorderOptions) {
    checkOptions('FlightRecorder', options, recorderRules);
    const { rank, worldSize, size = DEFAULT_SIZE } = options;
    if (!Number.isInteger(size) || size < 1 || size > MAX_SIZE) {
      throw new ConfigError(
        {
          asked: `A flight recorder of ${size} calls`,
          found: `it keeps 1 to ${MAX_SIZE}`,
          todo: 'Give a size among them',
        },
        { size, maxSize: MAX_SIZE },
      );
    }
    this.rank = rank;
    this.worldSize = worldSize;
    this.#calls = new RingBuffer(size);
    this.#onFailure = options.onFailure ?? (() => {});
  }

  group(group: ObservedGroup): void {
    this.#recordingOf(group);
  }

  collective(group: ObservedGroup, call: GroupCall, timeoutMs: number): CallFollower {
    return this.#recordingOf(group).collective(call, timeoutMs);
  }

  transfer(group: ObservedGroup, transfer: Transfer, timeoutMs: number): CallFollower {
    return this.#recordingOf(group).transfer(transfer, timeoutMs);
  }

  /** Records a call that was issued. */
  add(call: NewCall): RecordedCall {
    const createdMs = performance.now();
    const recorded: RecordedCall = {
      ...call,
      id: this.#issued++,
      createdMs,
      startedMs: undefined,
      completedMs: undefined,
      isRetired: false,
      stack: this.#stacks.take(createdMs),
    };
    this.#calls.push(recorded);
    if (recorded.stack !== undefined) {
      const oldest = this.#withStack.push(recorded);
      if (oldest !== undefined) oldest.stack = undefined;
    }
    return recorded;
  }

  /** Records that a call has failed. */
  fail(call: RecordedCall, error: unknown): void {
    if (this.#failure !== null) return;
    this.#failure = {
      code: ShardwiseError.isInstance(error) ? error.code : 'UNKNOWN',
      message: error instanceof Error ? error.message : String(error),
      time_ns: toEpochNs(performance.now()),
      record_id: call.id,
      missing_ranks: missingRanks(error, this.#groups[call.group]),
    };
    this.#onFailure(this);
  }

  #recordingOf(group: ObservedGroup): GroupRecording {
    let recording = this.#recordings.get(group);
    if (recording === undefined) {
      const { name, rank, worldRanks } = group;
      recording = new GroupRecording(this, { id: this.#groups.length, name, rank, worldRanks });
      this.#groups.push(recording);
      this.#recordings.set(group, recording);
    }
    return recording;
  }

  /** The recorded calls as plain data. */
  dump(): FlightDump {
    return {
      version: VERSION,
      rank: this.rank,
      world_size: this.worldSize,
      pg_config: Object.fromEntries(this.#groups.map((group) => [group.id, configOf(group)])),
      pg_status: Object.fromEntries(this.#groups.map((group) => [group.id, statusOf(group)])),
      entries: this.#calls.values().flatMap((call) => {
        const group = this.#groups[call.group];
        return group === undefined ? [] : entryOf(call, group, toEpochNs);
      }),
      failure: this.#failure,
    };
  }
}

function toEpochNs(ms: number): number {
  return Math.round((performance.timeOrigin + ms) * 1e6);
}

/** The missing ranks of a timeout error, as ranks of the world. The error has them as numbers of the group. */
function missingRanks(error: unknown, group: GroupRecording | undefined): readonly number[] | null {
  if (!ShardwiseError.isInstance(error) || error.code !== 'COLLECTIVE_TIMEOUT') return null;
  const { missing } = error.fields;
  if (!Array.isArray(missing) || group === undefined) return null;
  return missing.flatMap((rank: unknown) =>
    typeof rank === 'number' ? (group.worldRanks[rank] ?? []) : [],
  );
}

/** Keeps the latest `capacity` values. */
export class RingBuffer<T> {
  readonly capacity: number;
  readonly #values: T[] = [];
  #next = 0;

  constructor(capacity: number) {
    this.capacity = capacity;
  }

  /** Adds a value. Returns the value that it replaced, if there was one. */
  push(value: T): T | undefined {
    const replaced = this.#values[this.#next];
    this.#values[this.#next] = value;
    this.#next = (this.#next + 1) % this.capacity;
    return replaced;
  }

  /** The values, oldest first. */
  values(): readonly T[] {
    return [...this.#values.slice(this.#next), ...this.#values.slice(0, this.#next)];
  }
}
