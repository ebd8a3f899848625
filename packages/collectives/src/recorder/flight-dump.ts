/**
 * The data that one rank leaves when communication fails, in the format of PyTorch's flight recorder, whose
 * field names it uses. Sequence numbers count from 0, as in this package's errors. Fields that PyTorch does not
 * have are marked "ours".
 */
export interface FlightDump {
  readonly version: string;
  /** Ours: the number of this rank in the world. */
  readonly rank: number;
  /** Ours: the number of ranks of the world. */
  readonly world_size: number;
  /** Each group, by its number on this rank. */
  readonly pg_config: Readonly<Record<string, FlightGroup>>;
  readonly pg_status: Readonly<Record<string, FlightStatus>>;
  /** The latest calls, oldest first. */
  readonly entries: readonly FlightEntry[];
  /** Ours: the first call of this rank that failed; null if none has. */
  readonly failure: FlightFailure | null;
}

/** A group of the recorded rank. */
export interface FlightGroup {
  /** The same on all ranks of the group. */
  readonly name: string;
  readonly desc: string;
  /** The ranks of the world that are in the group, in its order: `[0, 2]`. */
  readonly ranks: string;
}

/** The sequence numbers of calls on a group. -1 means that there is none. */
export interface FlightStatus {
  readonly last_enqueued_collective: number;
  readonly last_started_collective: number;
  readonly last_completed_collective: number;
}

/** One call of a rank, as the flight recorder keeps it. */
export interface FlightEntry {
  /** The number of the call among all calls of the rank. */
  readonly record_id: number;
  readonly pg_id: number;
  /** The name and the description of the group. */
  readonly process_group: readonly [string, string];
  /** The sequence number of a collective. A point-to-point message has that of the next collective. */
  readonly collective_seq_id: number;
  /** The sequence number of a message. A collective has that of the next message. */
  readonly p2p_seq_id: number;
  /** The number of the call among all calls on the group. */
  readonly op_id: number;
  /**
   * The call by its name, with ranks of the group: `shardwise:allReduce`, `shardwise:send 0->1`,
   * `shardwise:recv 1<-0`.
   */
  readonly profiling_name: string;
  /** Nanoseconds since the epoch, as in all fields that end in `_ns`. */
  readonly time_created_ns: number;
  /**
   * Milliseconds from the start of the call to its end, or from its issue if the start is not known; null
   * before the end.
   */
  readonly duration_ms: number | null;
  readonly input_sizes: readonly (readonly number[])[];
  readonly input_dtypes: readonly string[];
  readonly output_sizes: readonly (readonly number[])[];
  readonly output_dtypes: readonly string[];
  /** A call has started when all ranks of its group have reached it and its data begins to move. */
  readonly state: FlightState;
  readonly time_discovered_started_ns: number | null;
  readonly time_discovered_completed_ns: number | null;
  /** Whether the caller knows that the call has ended. */
  readonly retired: boolean;
  /** The call's limit in milliseconds; null if it has none. */
  readonly timeout_ms: number | null;
  readonly is_p2p: boolean;
  /** The call site: the frames of user code, innermost first. Empty if they were not captured. */
  readonly frames: readonly FlightFrame[];
  /** Ours: the reduction, such as `sum` or `premultipliedSum 2`; null if nothing is reduced. */
  readonly reduce_op: string | null;
  /** Ours: the root, by its rank in the group; null if the call has none. */
  readonly root: number | null;
  /** Ours: how many elements of an all-to-all go to each rank and come from each rank. */
  readonly splits: FlightSplits | null;
  /** Ours: the message of a point-to-point call; null for collectives. */
  readonly message: FlightMessage | null;
}

/** How far a call has come. */
export type FlightState = 'scheduled' | 'started' | 'completed';

/** A line of user code that led to a call. */
export interface FlightFrame {
  readonly name: string;
  readonly filename: string;
  readonly line: number;
}

/** By rank, how many elements of an all-to-all this rank sends and receives. */
export interface FlightSplits {
  readonly input: readonly number[];
  readonly output: readonly number[];
}

/** The message of a point-to-point call. */
export interface FlightMessage {
  /** The other rank, by its number in the group. */
  readonly peer: number;
  readonly tag: number;
  /** The number of the message among those in this direction with this peer and tag. */
  readonly number: number;
}

/** The first call of a rank that failed. */
export interface FlightFailure {
  /** The stable code of the error, such as COLLECTIVE_TIMEOUT. */
  readonly code: string;
  readonly message: string;
  readonly time_ns: number;
  /** The `record_id` of the call. */
  readonly record_id: number;
  /**
   * The ranks of the world that had not reached a call that timed out, as far as this rank could see; null for
   * other failures.
   */
  readonly missing_ranks: readonly number[] | null;
}
